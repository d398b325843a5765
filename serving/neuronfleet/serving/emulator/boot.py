"""A replica's boot: its phases, how long each takes, and what the server logs meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from neuronfleet.serving.emulator.faults import Fault, Faults
from neuronfleet.serving.emulator.settings import BootSettings, ReplicaSettings


class Phase(StrEnum):
    """Where a replica is in its life."""

    NODE = "node"
    IMAGE = "image"
    WEIGHTS = "weights"
    GRAPHS = "graphs"
    WARM_UP = "warm-up"
    READY = "ready"
    DRAINING = "draining"
    CRASHED = "crashed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One phase of a boot."""

    phase: Phase
    seconds: float
    """Emulated."""


def is_hit(boot: BootSettings, faults: Faults) -> bool:
    """Whether the graphs come from the store."""
    return boot.graph_hit and Fault.GRAPH_MISS not in faults


def steps(settings: ReplicaSettings, faults: Faults) -> Iterator[Step]:
    """The phases ahead; a fault turned on meanwhile changes those not yet begun."""
    boot = settings.boot
    for phase in (Phase.NODE, Phase.IMAGE, Phase.WEIGHTS, Phase.GRAPHS, Phase.WARM_UP):
        factor = settings.slow_boot_factor if Fault.SLOW_BOOT in faults else 1.0
        yield Step(phase=phase, seconds=_seconds(boot, phase, faults) * factor)


def _seconds(boot: BootSettings, phase: Phase, faults: Faults) -> float:
    match phase:
        case Phase.NODE:
            return boot.node_seconds
        case Phase.IMAGE:
            return boot.image_seconds
        case Phase.WEIGHTS:
            return boot.weights_seconds
        case Phase.GRAPHS if is_hit(boot, faults):
            return boot.graphs_hit_seconds
        case Phase.GRAPHS:
            return boot.graphs_miss_seconds
        case _:
            return boot.warm_up_seconds


def lines_before(settings: ReplicaSettings, phase: Phase, hit: bool) -> list[str]:
    """What the server's log says as `phase` begins; node and image are before its process."""
    match phase:
        case Phase.WEIGHTS:
            return [
                f"Initializing a V1 LLM engine (emulated) with config: model={settings.model!r}, "
                f"max_seq_len={settings.max_model_len}",
                "Loading checkpoint shards: 0%",
            ]
        case Phase.GRAPHS if hit:
            return ["Using a cached neff for every graph"]
        case Phase.GRAPHS:
            field = settings.boot.missed_field
            which = f": {field} differs" if field else ""
            return [f"Unable to find precompiled artifacts{which}", "compiler_args are: (emulated)"]
        case _:
            return []


def lines_after(settings: ReplicaSettings, step: Step, hit: bool) -> list[str]:
    """What the server's log says as a phase ends."""
    seconds = f"{step.seconds:.2f} seconds"
    match step.phase:
        case Phase.WEIGHTS:
            return [f"Finished weights loading in {seconds}"]
        case Phase.GRAPHS if not hit:
            return [
                "Compilation Successfully Completed for every graph",
                f"Finished Compilation for all HLOs in {seconds}",
            ]
        case Phase.WARM_UP:
            return ["Warmup completed.", *cache_lines(settings)]
        case _:
            return []


def cache_lines(settings: ReplicaSettings) -> list[str]:
    """The lines that a ceiling is read from, worded as vLLM words them."""
    tokens, length = settings.logged_kv_tokens, settings.max_model_len
    return [
        f"GPU KV cache size: {tokens:,} tokens",
        f"Maximum concurrency for {length:,} tokens per request: {tokens / length:.2f}x",
    ]


def listening_line(host: str, port: int) -> str:
    """The last line of a boot."""
    return f"Starting vLLM API server 0 on http://{host}:{port}"
