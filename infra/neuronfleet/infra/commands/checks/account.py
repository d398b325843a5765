"""Who asks, and whether the account is ready for a deployment by CDK."""

from collections.abc import Iterator
from functools import partial

from botocore.exceptions import ClientError

from neuronfleet.infra.commands.checks.aws import Aws, asked, code_of
from neuronfleet.infra.commands.finding import Finding, fails, fine
from neuronfleet.infra.settings.model import NewCluster, Settings

LEAST_BOOTSTRAP = 6
"""Bootstrap version that CDK's default synthesizer wants."""
BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
_GONE = ("NoSuchEntity", "NoSuchEntityException")


def findings(settings: Settings, aws: Aws) -> Iterator[Finding]:
    """Identity, bootstrap, and the principals and policy that settings name."""
    yield from asked("identity", "account", partial(_identity, settings, aws))
    yield from asked("bootstrap", settings.region, partial(_bootstrap, settings, aws))
    if isinstance(settings.cluster, NewCluster):
        for index, admin in enumerate(settings.cluster.admins):
            path = f"cluster.admins[{index}]"
            yield from asked("principal", path, partial(_principal, admin.arn, path, aws))
    boundary = settings.permissions_boundary
    if boundary is not None:
        yield from asked("policy", boundary, partial(_boundary, boundary, aws))


def _identity(settings: Settings, aws: Aws) -> Iterator[Finding]:
    caller = aws.client("sts").get_caller_identity()
    account = caller["Account"]
    if settings.account not in (None, account):
        said = f"is {settings.account} in the settings, the credentials are of {account}"
        yield fails("identity", "account", said)
    else:
        yield fine("identity", "account", f"{account}, as {caller['Arn']}")


def _bootstrap(settings: Settings, aws: Aws) -> Iterator[Finding]:
    remedy = f"run `npx cdk bootstrap -c settings=FILE` for {settings.region}"
    try:
        found = aws.client("ssm").get_parameter(Name=BOOTSTRAP)
    except ClientError as wrong:
        if code_of(wrong) != "ParameterNotFound":
            raise
        yield fails("bootstrap", settings.region, f"is absent; {remedy}")
        return
    version = int(found["Parameter"]["Value"])
    if version < LEAST_BOOTSTRAP:
        said = f"is version {version}, must be at least {LEAST_BOOTSTRAP}; {remedy}"
        yield fails("bootstrap", settings.region, said)
    else:
        yield fine("bootstrap", settings.region, f"version {version}")


def _principal(arn: str, path: str, aws: Aws) -> Iterator[Finding]:
    """A role or user of this account; one of another is that account's to know."""
    kind, _, name = arn.rpartition(":")[2].partition("/")
    iam = aws.client("iam")
    try:
        # A path stands before the name, as role/teams/ClusterAdmin.
        last = name.rpartition("/")[2]
        found = iam.get_role(RoleName=last) if kind == "role" else iam.get_user(UserName=last)
    except ClientError as wrong:
        if code_of(wrong) not in _GONE:
            raise
        said = f"= {arn}, is no {kind} of this account: EKS refuses its access entry"
        yield fails("principal", path, said)
        return
    real = str((found.get("Role") or found["User"])["Arn"])
    if arn.startswith("arn:") and real != arn:
        yield fails("principal", path, f"= {arn}, must be {real}")
    else:
        yield fine("principal", path, real)


def _boundary(name: str, aws: Aws) -> Iterator[Finding]:
    caller = aws.client("sts").get_caller_identity()
    partition = caller["Arn"].split(":")[1]
    arn = f"arn:{partition}:iam::{caller['Account']}:policy/{name}"
    try:
        aws.client("iam").get_policy(PolicyArn=arn)
    except ClientError as wrong:
        if code_of(wrong) not in _GONE:
            raise
        yield fails("policy", "permissionsBoundary", f"= {name}, is no policy of this account")
        return
    yield fine("policy", "permissionsBoundary", arn)
