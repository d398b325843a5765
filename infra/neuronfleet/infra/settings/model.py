"""What one deployment is: one app, one region, one settings file, parsed once.

Every zone is a zone ID (use2-az3): zone names mean another place in each account.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from neuronfleet.serving.api.variant import CapacityType


class Owner(StrEnum):
    """Who launches a pool's nodes."""

    KARPENTER = "karpenter"
    """A NodePool and an EC2NodeClass; on-demand and spot."""
    NODE_GROUP = "node-group"
    """A managed node group in a stack of its own: blocks, reservations, fixed EFA pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNetwork:
    """A VPC of the project's own, with a private subnet for nodes in each zone."""

    cidr: str = "10.0.0.0/16"
    nat_gateways: int = 1
    """At least one: charts and images come from public registries, which no endpoint reaches."""
    flow_log_days: int = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetwork:
    """A VPC that stands already."""

    vpc_id: str
    cidr: str
    """Its primary block: who may reach the private endpoint."""
    subnets: Mapping[str, str]
    """Private subnet of each zone, by zone ID; each with a way out to public registries."""
    endpoints: bool = False
    """Whether the project adds interface endpoints, so that what AWS serves stays inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemNodes:
    """The node group for everything that needs no Neuron device."""

    instance_type: str = "m7i.large"
    least: int = 2
    most: int = 4
    ami_release: str | None = None
    """Pinned AMI release of Amazon Linux 2023, as 1.35.2-20261105."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admin:
    """An IAM principal that administers the cluster."""

    arn: str
    """Role or user, without account where it is this one's: role/NAME is completed at synthesis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCluster:
    """An EKS cluster of the project's own."""

    version: str = "1.35"
    public_cidrs: tuple[str, ...] = ()
    """Who may reach a public endpoint; none: there is no public endpoint. Never 0.0.0.0/0."""
    admins: tuple[Admin, ...] = ()
    system_nodes: SystemNodes = field(default_factory=SystemNodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster:
    """A cluster that stands already; its endpoint, logs and access stay as they are."""

    name: str
    version: str
    endpoint: str
    certificate_authority: str
    """Base64, as `describe-cluster` gives it."""
    security_group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A reservation that a pool is launched into, and its lifecycle."""

    id: str
    """cr-..., of a capacity block or an on-demand reservation."""
    instance_type: str
    """What was reserved: it has to be the pool's."""
    zone: str
    count: int
    """Instances that it holds."""
    starts_at: datetime | None = None
    """UTC; a capacity block has one."""
    ends_at: datetime | None = None
    """UTC; a capacity block has one."""
    ultraserver: bool = False
    """Whether instances are UltraServers: EC2 takes them 60 minutes before the end, not 30."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that a pool is to serve, as `infra init` writes it of a fleet."""

    name: str
    fleet: str
    """namespace/name of the ServingFleet whose reservation follows the pool's."""
    bytes_per_device: int
    """Weights and KV cache at the declared ceiling, on one Neuron device."""
    tensor_parallel_degree: int
    logical_core_size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes of one type, bought in one way."""

    name: str
    owner: Owner
    instance_type: str
    capacity: CapacityType
    zones: tuple[str, ...]
    """Zone IDs; exactly one for a node group."""
    least: int = 0
    most: int
    """Nodes at most."""
    sdk: str
    """Neuron SDK of the images that run there, as 2.28."""
    ami_release: str
    """Pinned EKS AL2023 Neuron AMI release, as v20260403."""
    ami_reason: str | None = None
    """Why a pair of AMI and SDK that is not known to work is used all the same."""
    efa: bool = False
    """Whether nodes get EFA interfaces, as many as the type has."""
    logical_core_size: int | None = None
    """LNC of the node; None: the type's default."""
    root_gib: int = 200
    """Root volume: images with graphs are tens of GiB."""
    block: Block | None = None
    usd_per_hour: float | None = None
    """What a node costs where the catalog does not know, as of a capacity block's offer."""
    models: tuple[Model, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that is built and then served by digest."""

    name: str
    """Folder under images/."""
    digest: str | None = None
    """sha256:..., recorded after its build; without it Serving is not synthesised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observability:
    """Managed Prometheus, alarms and a budget."""

    alarm_email: str | None = None
    budget_usd_per_month: float | None = None
    log_days: int = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The project's chart."""

    namespace: str = "neuronfleet"
    fleet_namespaces: tuple[str, ...] = ("models",)
    """Where fleets live: their service account may read weights and graphs."""
    service_account: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One deployment."""

    name: str
    """Prefix of every stack and of what has a name."""
    region: str
    account: str | None = None
    """None: the account of whoever deploys."""
    zones: tuple[str, ...] = ()
    """Zone IDs of the network."""
    network: NewNetwork | ExistingNetwork = field(default_factory=NewNetwork)
    cluster: NewCluster | ExistingCluster = field(default_factory=NewCluster)
    pools: tuple[Pool, ...] = ()
    images: tuple[Image, ...] = ()
    observability: Observability = field(default_factory=Observability)
    serving: Serving = field(default_factory=Serving)
    permissions_boundary: str | None = None
    """Name of a managed policy that bounds every role."""
    quotas: Mapping[str, int] = field(default_factory=dict)
    """vCPUs that the account may run, by quota code; written by `infra preflight`."""
    tags: Mapping[str, str] = field(default_factory=dict)
