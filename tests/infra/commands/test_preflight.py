"""The whole look at an account."""

import pytest

from neuronfleet.infra.commands.finding import Verdict
from neuronfleet.infra.commands.preflight import Report, document, preflight
from tests import schema
from tests.infra.commands.accounts import NOW, Nobody, settings


def test_without_credentials_everything_is_unknown_and_nothing_is_fine() -> None:
    report = preflight(settings(), Nobody(), NOW, 168)

    unknown = [one for one in report.findings if one.verdict is Verdict.UNKNOWN]

    assert {one.what for one in report.findings if one not in unknown} == {"price"}
    assert report.count(Verdict.FINE) == 0
    assert {one.what for one in unknown} == {
        "identity",
        "bootstrap",
        "principal",
        "EKS version",
        "zones",
        "offering",
        "quota",
        "AMI",
        "reservation",
    }
    assert report.true
    assert not report.is_fine
    assert not report.quotas


def test_what_synthesis_would_refuse_is_said_among_the_rest() -> None:
    wrong = settings(("zones: [use2-az1]", "zones: [use2-az2]"))

    report = preflight(wrong, Nobody(), NOW, 168)
    first = report.findings[0]

    assert not report.true
    assert (first.what, first.verdict) == ("settings", Verdict.FAILS)


def test_quotas_written_before_are_not_held_against_the_account() -> None:
    written = settings(("pools:", "quotas: {L-1945791B: 1}\npools:"))

    assert preflight(written, Nobody(), NOW, 168).true


@pytest.mark.parametrize("fine", [True, False])
def test_the_document_is_as_its_schema_says(fine: bool) -> None:
    report = preflight(settings(), Nobody(), NOW, 168)
    if fine:
        report = Report(findings=(), quotas={"L-1945791B": 32}, true=True)

    found = document(report, settings())

    schema.check(found, "infra-preflight")
    assert found["fine"] is fine
