"""What the account may run, asked of Service Quotas, against what pools want at most."""

from collections.abc import Iterator
from functools import partial

from botocore.exceptions import ClientError

from neuronfleet.infra.commands.checks.aws import Aws, asked, code_of
from neuronfleet.infra.commands.finding import Finding, fails, fine
from neuronfleet.infra.settings import quotas
from neuronfleet.infra.settings.model import Settings

SERVICE = "ec2"
_UNSET = "NoSuchResourceException"
"""Nobody of the account has asked for more: AWS's default holds."""


def findings(settings: Settings, aws: Aws, found: dict[str, int]) -> Iterator[Finding]:
    """Each quota that pools count against; `found` takes what the account has, in vCPUs."""
    for code in quotas.needed(settings):
        yield from asked("quota", code, partial(_quota, settings, code, aws, found))


def _quota(settings: Settings, code: str, aws: Aws, found: dict[str, int]) -> Iterator[Finding]:
    has, wants = _value(code, aws), quotas.needed(settings)[code]
    found[code] = has
    name, by = quotas.ALL[code].name, _by(settings, code)
    if has < wants:
        said = (
            f"{has} vCPUs, must be {wants} for {by}: request it from Service Quotas ({name}), "
            "which takes days, or lower their most"
        )
        yield fails("quota", code, said)
    else:
        yield fine("quota", code, f"{has} vCPUs of {name}, {wants} wanted at most")


def _value(code: str, aws: Aws) -> int:
    client = aws.client("service-quotas")
    try:
        answer = client.get_service_quota(ServiceCode=SERVICE, QuotaCode=code)
    except ClientError as wrong:
        if code_of(wrong) != _UNSET:
            raise
        answer = client.get_aws_default_service_quota(ServiceCode=SERVICE, QuotaCode=code)
    return int(answer["Quota"]["Value"])


def _by(settings: Settings, code: str) -> str:
    uses = [use for use in quotas.uses(settings) if use.quota.code == code]
    return " + ".join(f"{use.by} {use.vcpus}" for use in uses)
