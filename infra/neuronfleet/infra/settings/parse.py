"""One settings file, parsed once: every problem of its form at once.

The keys are the fields of `model`, in camelCase; what they say is judged by `truth`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from neuronfleet.infra.settings import forms, offers
from neuronfleet.infra.settings.model import (
    Admin,
    Block,
    ExistingCluster,
    ExistingNetwork,
    Image,
    Model,
    NewCluster,
    NewNetwork,
    Observability,
    Owner,
    Pool,
    Serving,
    Settings,
    SystemNodes,
)
from neuronfleet.serving.api.documents import read_documents
from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.api.variant import CapacityType

API_VERSION = "neuronfleet.dev/v1alpha1"
KIND = "InfraSettings"
MOST_NODES = 1000
_MOST_BYTES = 2**45
"""32 TiB: more than any device will hold, so that a wrong unit is seen."""


def load(path: Path) -> Settings:
    """The settings of a file.

    Raises:
        SpecError: it cannot be read, or its form is wrong; every problem with path and value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise SpecError(f"{path}: {wrong}, must be a readable settings file") from wrong
    return parse(text, str(path))


def parse(text: str, source: str) -> Settings:
    """The settings of a YAML text; `source` is what errors call it.

    Raises:
        SpecError: as `load`.
    """
    documents = read_documents(text, source)
    if len(documents) != 1:
        raise SpecError(f"{source}: {len(documents)} documents, must be one of kind {KIND}")
    problems: list[Problem] = []
    settings = _read(Fields(documents[0], "", problems))
    if problems:
        raise SpecError.of(source, problems)
    return settings


def _read(fields: Fields) -> Settings:
    fields.choice("apiVersion", (API_VERSION,))
    fields.choice("kind", (KIND,))
    settings = Settings(
        name=forms.formed(fields, "name", forms.NAME),
        region=forms.formed(fields, "region", forms.REGION),
        account=forms.optional(fields, "account", forms.ACCOUNT),
        zones=fields.strings("zones"),
        network=_network(fields.section("network")),
        cluster=_cluster(fields.section("cluster")),
        pools=tuple(_pool(one) for one in fields.items("pools", most=64)),
        images=tuple(_image(one) for one in fields.items("images", most=32)),
        observability=_observability(fields.section("observability")),
        serving=_serving(fields.section("serving")),
        permissions_boundary=forms.optional(fields, "permissionsBoundary", forms.POLICY),
        quotas=_quotas(fields),
        tags=dict(fields.pairs("tags", most=40)),
    )
    fields.close()
    return settings


def _network(fields: Fields) -> NewNetwork | ExistingNetwork:
    if "existing" in fields:
        section = fields.section("existing")
        fields.close()
        return _existing_network(section)
    usual = NewNetwork()
    network = NewNetwork(
        cidr=fields.text("cidr", usual.cidr),
        nat_gateways=fields.integer("natGateways", 1, 6, usual.nat_gateways),
        flow_log_days=forms.retention(fields, "flowLogDays", usual.flow_log_days),
    )
    fields.section("existing")
    fields.close()
    return network


def _existing_network(fields: Fields) -> ExistingNetwork:
    subnets = dict(fields.pairs("subnets"))
    for zone, subnet in subnets.items():
        if not forms.fits(subnet, forms.SUBNET):
            fields.problem(f"subnets.{zone}", subnet, forms.SUBNET.allowed)
    network = ExistingNetwork(
        vpc_id=forms.formed(fields, "vpcId", forms.VPC),
        cidr=fields.text("cidr"),
        subnets=subnets,
        endpoints=forms.flag(fields, "endpoints", False),
    )
    fields.close()
    return network


def _cluster(fields: Fields) -> NewCluster | ExistingCluster:
    if "existing" in fields:
        section = fields.section("existing")
        fields.close()
        return _existing_cluster(section)
    cluster = NewCluster(
        version=forms.formed(fields, "version", forms.VERSION, NewCluster().version),
        public_cidrs=fields.strings("publicCidrs"),
        admins=tuple(
            Admin(arn=arn) for arn in forms.formed_list(fields, "admins", forms.PRINCIPAL)
        ),
        system_nodes=_system_nodes(fields.section("systemNodes")),
    )
    fields.section("existing")
    fields.close()
    return cluster


def _existing_cluster(fields: Fields) -> ExistingCluster:
    cluster = ExistingCluster(
        name=forms.formed(fields, "name", forms.CLUSTER),
        version=forms.formed(fields, "version", forms.VERSION),
        endpoint=forms.formed(fields, "endpoint", forms.ENDPOINT),
        certificate_authority=_certificate(fields),
        security_group_id=forms.formed(fields, "securityGroupId", forms.GROUP),
    )
    fields.close()
    return cluster


def _certificate(fields: Fields) -> str:
    """Longer than other strings: a whole certificate."""
    value = fields.text("certificateAuthority", most=8192)
    if value and not forms.fits(value, forms.BASE64):
        fields.problem("certificateAuthority", value, forms.BASE64.allowed)
    return value


def _system_nodes(fields: Fields) -> SystemNodes:
    usual = SystemNodes()
    nodes = SystemNodes(
        instance_type=fields.text("instanceType", usual.instance_type),
        least=fields.integer("least", 1, MOST_NODES, usual.least),
        most=fields.integer("most", 1, MOST_NODES, usual.most),
        ami_release=forms.optional(fields, "amiRelease", forms.SYSTEM_AMI),
    )
    fields.close()
    return nodes


def _pool(fields: Fields) -> Pool:
    owner = Owner(fields.choice("owner", list(Owner)))
    instance_type = fields.text("instanceType")
    pool = Pool(
        name=forms.formed(fields, "name", forms.POOL_NAME),
        owner=owner,
        instance_type=instance_type,
        capacity=CapacityType(fields.choice("capacity", list(CapacityType))),
        zones=fields.strings("zones"),
        least=fields.integer("least", 0, MOST_NODES, 0),
        most=fields.integer("most", 1, MOST_NODES),
        sdk=forms.formed(fields, "sdk", forms.SDK),
        ami_release=forms.formed(fields, "amiRelease", forms.AMI),
        ami_reason=fields.optional("amiReason"),
        efa=forms.flag(fields, "efa", efa_default(owner, instance_type)),
        logical_core_size=fields.integer("logicalCoreSize", 1, 2, 0) or None,
        root_gib=fields.integer("rootGib", 50, 16_384, 200),
        block=_block(fields),
        usd_per_hour=fields.number("usdPerHour", 0.001, 10_000, 0) or None,
        models=tuple(_model(one) for one in fields.items("models", most=64)),
    )
    fields.close()
    return pool


def efa_default(owner: Owner, instance_type: str) -> bool:
    """Whether nodes get EFA where nothing is said: on a node group, where it is for many nodes.

    One interface (trn2.3xlarge) serves one chip: off unless asked.
    """
    offer = offers.find(instance_type)
    return owner is Owner.NODE_GROUP and offer is not None and offer.efa_interfaces > 1


def _block(fields: Fields) -> Block | None:
    given = "block" in fields
    section = fields.section("block")
    if not given:
        return None
    block = Block(
        id=forms.formed(section, "id", forms.RESERVATION),
        instance_type=section.text("instanceType"),
        zone=section.text("zone"),
        count=section.integer("count", 1, MOST_NODES),
        starts_at=_utc(section.moment("startsAt")),
        ends_at=_utc(section.moment("endsAt")),
        ultraserver=forms.flag(section, "ultraserver", False),
    )
    section.close()
    return block


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _model(fields: Fields) -> Model:
    model = Model(
        name=fields.text("name"),
        fleet=forms.formed(fields, "fleet", forms.FLEET),
        bytes_per_device=fields.integer("bytesPerDevice", 1, _MOST_BYTES),
        tensor_parallel_degree=fields.integer("tensorParallelDegree", 1, 1024),
        logical_core_size=fields.integer("logicalCoreSize", 1, 2, 0) or None,
    )
    fields.close()
    return model


def _image(fields: Fields) -> Image:
    image = Image(
        name=forms.formed(fields, "name", forms.IMAGE),
        digest=forms.optional(fields, "digest", forms.DIGEST),
    )
    fields.close()
    return image


def _observability(fields: Fields) -> Observability:
    found = Observability(
        alarm_email=forms.optional(fields, "alarmEmail", forms.EMAIL),
        budget_usd_per_month=fields.number("budgetUsdPerMonth", 1, 100_000_000, 0) or None,
        log_days=forms.retention(fields, "logDays", 90),
    )
    fields.close()
    return found


def _serving(fields: Fields) -> Serving:
    usual = Serving()
    serving = Serving(
        namespace=forms.formed(fields, "namespace", forms.LABEL, usual.namespace),
        fleet_namespaces=forms.formed_list(
            fields, "fleetNamespaces", forms.LABEL, usual.fleet_namespaces
        ),
        service_account=forms.formed(fields, "serviceAccount", forms.LABEL, usual.service_account),
    )
    fields.close()
    return serving


def _quotas(fields: Fields) -> Mapping[str, int]:
    quotas: dict[str, Any] = fields.free("quotas")
    for code, value in quotas.items():
        if not forms.fits(str(code), forms.QUOTA):
            fields.problem("quotas", code, forms.QUOTA.allowed)
        elif not isinstance(value, int) or isinstance(value, bool) or value < 0:
            fields.problem(f"quotas.{code}", value, "must be a whole number of vCPUs, 0 or more")
    return {str(code): value for code, value in quotas.items()}
