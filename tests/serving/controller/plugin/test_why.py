import json
from dataclasses import replace
from typing import Any

import pytest

from neuronfleet.serving.api.status import ConditionType, DecisionRecord, FleetStatus
from neuronfleet.serving.controller.plugin.why import view
from neuronfleet.serving.controller.plugin.why.explain import Why, document, explain
from neuronfleet.serving.controller.plugin.why.reasons import GOOD, SENTENCES, sentence, well
from neuronfleet.serving.planner.decide import Reason
from tests.schema import check
from tests.serving.controller.plugin.objects import (
    NOW,
    condition,
    fleet,
    moment,
    printed,
    rollout,
    status,
)


def why(found: FleetStatus | None = None, **spec: Any) -> Why:
    return explain(fleet(found, **spec), NOW)


def text(found: FleetStatus | None = None, width: int = 80, **spec: Any) -> str:
    return printed(lambda out: view.show(why(found, **spec), out), width)


def test_every_reason_has_a_sentence_of_its_own() -> None:
    assert set(SENTENCES) == set(Reason)
    assert len(set(SENTENCES.values())) == len(Reason)


def test_every_condition_is_known_to_be_good_or_bad() -> None:
    assert set(GOOD) == set(ConditionType)


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_is_told_in_words(reason: Reason) -> None:
    assert SENTENCES[reason] in " ".join(text(status(reason=str(reason)), width=400).split())


def test_a_reason_of_a_newer_controller_is_shown_as_it_is() -> None:
    assert "Astrology: a reason that this version" in text(status(reason="Astrology"))
    assert "no decision is known" in sentence(None)


def test_inputs_carry_their_units() -> None:
    shown = text()

    assert "load              11 sequences" in shown
    assert "slots needed      16.5 slots" in shown
    assert "arrivals          0.4 requests/s" in shown
    assert "sample age        3 s" in shown
    assert "Inputs of the last decision (3m ago)" in shown


def test_what_is_unknown_is_the_word_and_never_0() -> None:
    bare = FleetStatus(
        observed_generation=1, last_decision=DecisionRecord(at=moment(5), reason="MetricsUnknown")
    )

    shown = text(bare)

    assert "unknown desired, unknown serving" in shown
    assert "load unknown, unknown slots serving, $/h unknown" in shown
    assert "slots needed      unknown" in shown
    assert " 0" not in shown.replace("0 booting", "")


def test_a_fleet_without_a_status_says_that_nobody_wrote_one() -> None:
    shown = text(FleetStatus())

    assert "the controller has not written this fleet's status yet" in shown
    assert "no decision is known" in shown


def test_a_status_of_an_older_spec_says_so() -> None:
    assert "the status answers generation 1 of the spec; now is 4" in text(generation=4)


def test_limits_are_the_conditions_that_are_not_as_they_should_be() -> None:
    found = why(
        status(
            conditions=(
                condition("Ready", "True"),
                condition("Progressing", "True"),
                condition("ScalingLimited", "True", "AtMaximum", "maxReplicas = 4"),
                condition("GraphCacheReady", "Unknown", "NotReported"),
                condition("MetricsAvailable", "Unknown", "SourceError"),
            )
        )
    )

    assert [one.type for one in found.limits] == ["ScalingLimited", "MetricsAvailable"]
    shown = printed(lambda out: view.show(found, out))
    assert "ScalingLimited=True AtMaximum (4m ago): maxReplicas = 4" in shown


def test_a_condition_of_a_newer_controller_limits_nothing() -> None:
    assert well(replace(condition("Ready", "False"), type="Sunny"))


def test_a_healthy_fleet_is_limited_by_nothing() -> None:
    assert "What limits it\n  nothing" in text()


def test_decisions_are_shown_newest_first_with_what_they_changed() -> None:
    lines = text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Last decisions"))

    assert lines[at + 2].split()[2:] == ["3m", "2", "2", "AtMaximum", "11"]
    assert lines[at + 3].split()[2:] == ["2h", "1", "2", "SlotsNeeded", "7"]


def test_a_rollback_is_told_with_its_reason() -> None:
    shown = text(status(rollout=rollout("RolledBack")))

    assert "RolledBack: inf2, revision aaaaaaaa to bbbbbbbb, began 10m ago" in shown
    assert "waits: ErrImagePull" in shown


def test_advisory_says_that_nothing_is_carried_out() -> None:
    assert "mode Advisory: decisions are published and not carried out" in text(mode="Advisory")


def test_80_columns_hold_every_line_and_every_header() -> None:
    many = [replace(status().variants[0], name=f"inf2-spot-{i}", limited="x" * 90) for i in (1, 2)]
    shown = text(status(variants=tuple(many), rollout=rollout("Moving")))

    assert max(map(len, shown.splitlines())) <= 80
    assert "DRAINING  CEILING   $/H  BOOT P90" in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    "found", [None, FleetStatus(), status(rollout=rollout("Warming"))], ids=str.__call__
)
def test_the_json_is_what_its_schema_says(found: FleetStatus | None) -> None:
    document_ = document(why(found))

    check(json.loads(json.dumps(document_)), "kubectl-why")
    assert document_["sentence"] == sentence(document_["reason"])
