"""`neuronfleet infra preflight`: asks the account what would fail, before anything is created."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import boto3
from botocore.config import Config

from neuronfleet.infra.commands.checks import (
    account,
    cluster,
    images,
    network,
    offerings,
    offers,
    prices,
    quotas,
    reservations,
)
from neuronfleet.infra.commands.checks.aws import Aws
from neuronfleet.infra.commands.finding import Finding, Verdict, fails
from neuronfleet.infra.settings import truth
from neuronfleet.infra.settings.model import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found, and the quotas that the account has."""

    findings: tuple[Finding, ...]
    quotas: Mapping[str, int]
    """vCPUs by quota code, of those that the settings need and AWS told."""
    true: bool
    """Whether synthesis takes the settings, their quotas aside."""

    def count(self, verdict: Verdict) -> int:
        """How many findings are of this kind."""
        return sum(one.verdict is verdict for one in self.findings)

    @property
    def is_fine(self) -> bool:
        """Whether nothing would fail and nothing is unknown."""
        return self.count(Verdict.FAILS) + self.count(Verdict.UNKNOWN) == 0


def preflight(settings: Settings, aws: Aws, now: datetime, hours: int) -> Report:
    """Ask everything; what AWS does not answer is unknown, and the rest is asked all the same.

    Args:
        settings: what is to be deployed.
        aws: clients of the account and region.
        now: before which nothing can start.
        hours: length of blocks that are searched for pools without one.
    """
    # Quotas are what this command finds out: those written before are not held against it.
    problems = truth.check(dataclasses.replace(settings, quotas={}), now)
    found: dict[str, int] = {}
    asked = (
        [fails("settings", one.path, f"= {one.value}, {one.allowed}") for one in problems],
        account.findings(settings, aws),
        cluster.findings(settings, aws),
        network.findings(settings, aws),
        offerings.findings(settings, aws),
        quotas.findings(settings, aws, found),
        images.findings(settings, aws),
        reservations.findings(settings, aws, now, hours),
        prices.findings(settings, aws, now),
    )
    findings = tuple(one for part in asked for one in part)
    return Report(findings=findings, quotas=found, true=not problems)


def sold(hours: int) -> int:
    """The shortest length of capacity blocks on sale that covers so many hours."""
    return offers.sold_hours(hours)


def session(region: str, profile: str | None) -> Aws:
    """Clients of the region with the caller's own credentials."""
    return _Session(boto3.Session(profile_name=profile, region_name=region))


@dataclass(frozen=True, slots=True)
class _Session:
    """A boto3 session that gives up within seconds where AWS does not answer."""

    session: boto3.Session

    def client(self, service: str) -> Any:
        config = Config(connect_timeout=5, read_timeout=30, retries={"max_attempts": 3})
        region = prices.HOME if service == "pricing" else None
        return self.session.client(service, region_name=region, config=config)


def document(report: Report, settings: Settings) -> dict[str, Any]:
    """The report as docs/schemas/infra-preflight.json describes it."""
    return {
        "name": settings.name,
        "region": settings.region,
        "fine": report.is_fine and report.true,
        "findings": [
            {
                "what": one.what,
                "subject": one.subject,
                "verdict": str(one.verdict),
                "said": one.said,
            }
            for one in report.findings
        ],
        "quotas": dict(report.quotas),
    }
