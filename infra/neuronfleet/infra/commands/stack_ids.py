"""Which stacks a deployment has, and in which order they come: known without CDK."""

from neuronfleet.infra.settings.model import Owner, Pool, Settings


def network(settings: Settings) -> str:
    """Id of the Network stack."""
    return f"{settings.name}-Network"


def data(settings: Settings) -> str:
    """Id of the Data stack."""
    return f"{settings.name}-Data"


def build(settings: Settings) -> str:
    """Id of the Build stack."""
    return f"{settings.name}-Build"


def cluster(settings: Settings) -> str:
    """Id of the Cluster stack."""
    return f"{settings.name}-Cluster"


def pool(settings: Settings, one: Pool) -> str:
    """Id of the stack that a pool is part of: a node group has one of its own."""
    return f"{settings.name}-Pool-{one.name}" if has_own(one) else addons(settings)


def addons(settings: Settings) -> str:
    """Id of the Addons stack; it holds Karpenter's pools too."""
    return f"{settings.name}-Addons"


def observability(settings: Settings) -> str:
    """Id of the Observability stack."""
    return f"{settings.name}-Observability"


def serving(settings: Settings) -> str:
    """Id of the Serving stack."""
    return f"{settings.name}-Serving"


def has_own(one: Pool) -> bool:
    """Whether a pool has a stack of its own."""
    return one.owner is Owner.NODE_GROUP
