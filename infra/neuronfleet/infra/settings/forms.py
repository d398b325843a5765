"""How a written value has to look, and an example for whoever got it wrong."""

import re
from dataclasses import dataclass, replace

from neuronfleet.serving.api.fields import Fields


@dataclass(frozen=True, slots=True)
class Form:
    """A pattern that the whole value matches."""

    pattern: str
    allowed: str
    """The pattern in words, as `must be a zone ID, as use2-az3`."""


NAME = Form(
    r"[a-z]([a-z0-9-]{0,18}[a-z0-9])?",
    "must be at most 20 of a-z, 0-9 and -, from a letter on: buckets and stacks are named after it",
)
POOL_NAME = Form(
    r"[a-z]([a-z0-9-]{0,22}[a-z0-9])?",
    "must be at most 24 of a-z, 0-9 and -, from a letter on: stacks and nodes are named after it",
)
REGION = Form(r"[a-z]{2}(-[a-z]+)+-[0-9]", "must be a region, as us-east-2")
ACCOUNT = Form(r"[0-9]{12}", "must be 12 digits in quotes, or left out")
VPC = Form(r"vpc-[0-9a-f]{8,17}", "must be the ID of a VPC, as vpc-0123456789abcdef0")
SUBNET = Form(r"subnet-[0-9a-f]{8,17}", "must be a subnet's ID, as subnet-0123456789abcdef0")
GROUP = Form(r"sg-[0-9a-f]{8,17}", "must be a security group's ID, as sg-0123456789abcdef0")
RESERVATION = Form(r"cr-[0-9a-f]{8,17}", "must be a reservation's ID, as cr-0123456789abcdef0")
CLUSTER = Form(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}", "must be the name of an EKS cluster")
VERSION = Form(r"1\.[0-9]{2}", 'must be a version of Kubernetes in quotes, as "1.35"')
ENDPOINT = Form(
    r"https://[0-9A-Za-z.-]+", "must be the endpoint of describe-cluster, from https://"
)
BASE64 = Form(r"[A-Za-z0-9+/]+={0,2}", "must be base64, as describe-cluster gives it")
PRINCIPAL = Form(
    r"(arn:aws[a-z-]*:iam::[0-9]{12}:)?(role|user)/[\w+=,.@/-]{1,128}",
    "must be an IAM role or user, as role/ClusterAdmin",
)
AMI = Form(r"v20[0-9]{6}", "must be a release of the EKS AMI, as v20260403")
SYSTEM_AMI = Form(
    r"1\.[0-9]{2}\.[0-9]+-20[0-9]{6}", "must be a release of the EKS AMI, as 1.35.2-20261105"
)
SDK = Form(r"[0-9]+\.[0-9]+(\.[0-9]+)?", 'must be a Neuron SDK in quotes, as "2.28"')
DIGEST = Form(
    r"sha256:[0-9a-f]{64}", "must be sha256: and 64 hexadecimal digits, or left out until built"
)
IMAGE = Form(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", "must be a folder under images/")
EMAIL = Form(r"[^@\s]+@[^@\s]+\.[^@\s.]+", "must be an e-mail address")
POLICY = Form(
    r"[\w+=,.@-]{1,128}", "must be the name of a managed policy, not its ARN, as TeamBoundary"
)
FLEET = Form(r"[a-z0-9.-]{1,63}/[a-z0-9.-]{1,63}", "must be NAMESPACE/NAME of a ServingFleet")
LABEL = Form(
    r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "must be a name as Kubernetes takes it: a-z, 0-9 and -"
)
QUOTA = Form(r"L-[0-9A-F]{8}", "must be a quota code, as L-2C3B7624")


RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922,
    3288, 3653,
)  # fmt: skip
"""For how long CloudWatch keeps a log: these and no others (PutRetentionPolicy)."""


def formed(fields: Fields, name: str, form: Form, default: str | None = None) -> str:
    """A string of this form; required where no default is given."""
    before = len(fields.problems)
    value = fields.text(name, default)
    if len(fields.problems) > before and name in fields:
        # 1.35 without quotes is a number: the form says more than `must be a string`.
        fields.problems[-1] = replace(fields.problems[-1], allowed=form.allowed)
    elif value and value != default and not fits(value, form):
        fields.problem(name, value, form.allowed)
    return value


def optional(fields: Fields, name: str, form: Form) -> str | None:
    """A string of this form, None where absent."""
    return formed(fields, name, form, "") or None


def formed_list(
    fields: Fields, name: str, form: Form, default: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """A list of strings of this form."""
    if name not in fields:
        fields.strings(name)
        return default
    values = fields.strings(name)
    for index, value in enumerate(values):
        if not fits(value, form):
            fields.problem(f"{name}[{index}]", value, form.allowed)
    return values


def fits(value: str, form: Form) -> bool:
    """Whether the whole of `value` has this form."""
    return re.fullmatch(form.pattern, value, re.ASCII) is not None


def retention(fields: Fields, name: str, default: int) -> int:
    """Days that a log is kept."""
    days = fields.integer(name, RETENTION_DAYS[0], RETENTION_DAYS[-1], default)
    if days not in RETENTION_DAYS:
        fields.problem(name, days, f"must be one of {', '.join(map(str, RETENTION_DAYS))}")
    return days


def flag(fields: Fields, name: str, default: bool) -> bool:
    """True or false."""
    before = len(fields.problems)
    # YAML's true is Python's True; a quoted one is taken for the same.
    value = fields.choice(name, ("True", "False", "true", "false"), str(default))
    if len(fields.problems) > before:
        fields.problems[-1] = replace(fields.problems[-1], allowed="must be true or false")
    return value.lower() == "true"
