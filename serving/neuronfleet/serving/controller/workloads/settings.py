"""What an installation decides for the pods of all its fleets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from neuronfleet.serving.api.problems import SpecError

_GIB = 2**30
_PRIVATE = (
    "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16",
    "fc00::/7", "fe80::/10",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    """The controller's settings that reach a manifest."""

    images: Mapping[int, str]
    """Default image by backend generation; a variant's own wins."""
    gateway_namespace: str
    gateway_labels: Mapping[str, str]
    """Labels of the gateway's pods: they alone may send requests to a replica."""
    monitoring_namespace: str | None = None
    """Where Prometheus runs; None admits none. Labels without a namespace would let any tenant's
    pod past the gateway by giving itself those labels."""
    monitoring_labels: Mapping[str, str] = field(default_factory=dict)
    dns_namespace: str = "kube-system"
    dns_labels: Mapping[str, str] = field(default_factory=lambda: {"k8s-app": "kube-dns"})
    weights_cidrs: tuple[str, ...] = ("0.0.0.0/0", "::/0")
    """Where a hub or S3 may be; an interface endpoint or a proxy needs its own private range."""
    private_cidrs: tuple[str, ...] = _PRIVATE
    """Left out of `weights_cidrs`: services, pods, the API server and instance metadata."""
    scheduler_name: str | None = None
    """The Neuron scheduler extension's; it gives replicas of several devices adjacent ones."""
    shm_bytes: int = 8 * _GIB
    """Most of /dev/shm; a quarter of a replica's memory where that is less."""
    request_share: float = 0.75
    """Part of a replica's share of the instance's CPU and memory that it requests. The rest is
    the kubelet's and the DaemonSets'; 0 requests none."""
    drain_margin_s: float = 30.0
    """From the end of a drain to the kill: what the server needs to stop."""
    startup_margin: float = 2.0
    """Learned P99 boot times after which a boot counts as hung."""
    startup_floor_s: float = 1800.0
    """No boot counts as hung before: a first compile takes 15 to 20 minutes (Llama 70B)."""
    capacity_wait_s: float = 600.0
    """What a node may take to come, beyond the boot, before a rollout counts as stuck."""
    probe_period_s: int = 10
    probe_timeout_s: int = 10
    """Enough for a canary's prompt and tokens on an idle replica."""
    user: int = 65532
    """User and group that a replica runs as."""

    def __post_init__(self) -> None:
        """Refuse what would open replicas to everybody or stop every pod.

        Raises:
            SpecError: names the setting.
        """
        for name, labels in (
            ("gateway_labels", self.gateway_labels),
            ("dns_labels", self.dns_labels),
        ):
            if not labels:
                raise SpecError(f"{name} = nothing, must select pods by at least one label")
        if self.monitoring_namespace is not None and not self.monitoring_labels:
            raise SpecError("monitoring_labels = nothing, must be given with monitoring_namespace")
        for name, value, low, high in (
            ("request_share", self.request_share, 0, 1),
            ("startup_margin", self.startup_margin, 1, 100),
            ("startup_floor_s", self.startup_floor_s, 1, 86_400),
            ("drain_margin_s", self.drain_margin_s, 1, 3600),
            ("probe_period_s", self.probe_period_s, 1, 300),
            ("probe_timeout_s", self.probe_timeout_s, 1, 300),
            ("user", self.user, 1, 2**31 - 1),
        ):
            if not low <= value <= high:
                raise SpecError(f"{name} = {value}, must be in [{low}, {high}]")
