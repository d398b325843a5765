"""Law 1: how many sequences a replica may run at once, and where that number comes from."""

from dataclasses import dataclass
from enum import StrEnum

from neuronfleet.serving.api.architecture import Architecture
from neuronfleet.serving.api.variant import Variant

OVERHEAD_MIB_PER_CHIP = 1255.0
"""Device memory that is neither weights nor KV: 24,764 MiB used on an inf2 chip, less 15,317 of
weights and 8,192 of KV (telemetry of the Llama 3.1 8B study)."""
_MIB = 2**20


class CeilingSource(StrEnum):
    """What a ceiling's number rests on."""

    DEVICE_MEMORY = "device memory arithmetic"
    SERVER_LOG = "server log"
    CONFIGURED = "configured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A replica's slots."""

    slots: int
    """0 where not one sequence fits."""
    source: CeilingSource
    memory_slots: int | None
    """What device memory would allow, whatever is configured; None where unknown."""


def kv_tokens_of_log(variant: Variant, logged_tokens: int) -> int | None:
    """KV tokens that a boot log measures; None where it only echoes the settings.

    Generation 1 always logs (max_num_seqs + 1) * max_model_len, which says nothing of memory.
    """
    if variant.generation == 1:
        return None
    return logged_tokens


def free_bytes(architecture: Architecture, variant: Variant) -> float | None:
    """Device memory of one replica that weights and overhead leave; None where unknown."""
    if variant.instance.hbm_gib is None:
        return None
    chips = variant.node_share * variant.instance.accelerators
    memory = variant.instance.hbm_gib * variant.node_share * 1024 * _MIB
    overhead = OVERHEAD_MIB_PER_CHIP * chips * _MIB
    return memory - architecture.weight_bytes(variant.weight_dtype) - overhead


def sequence_bytes(architecture: Architecture, variant: Variant) -> float:
    """Device memory of one sequence at max_model_len, over all ranks of a replica."""
    copies = max(1.0, variant.tensor_parallel / architecture.kv_heads)
    kv = architecture.kv_bytes_per_token(variant.kv_cache.dtype) * copies
    return kv * variant.max_model_len + architecture.state_bytes


def memory_slots(architecture: Architecture | None, variant: Variant) -> int | None:
    """Sequences that device memory holds.

    inf2.xlarge, 8B, 2048: (32,768 - 15,317 - 1,255) MiB / 256 MiB -> 63.
    """
    if architecture is None:
        return None
    free = free_bytes(architecture, variant)
    if free is None:
        return None
    return max(0, int(free // sequence_bytes(architecture, variant)))


def ceiling(
    architecture: Architecture | None, variant: Variant, *, logged_kv_tokens: int | None = None
) -> Ceiling:
    """min(max_num_seqs, floor(KV tokens / max_model_len)), from the best source there is."""
    by_memory = memory_slots(architecture, variant)
    limits = [(variant.max_num_seqs, CeilingSource.CONFIGURED)]
    logged = None if logged_kv_tokens is None else kv_tokens_of_log(variant, logged_kv_tokens)
    if logged is not None:
        limits.append((logged // variant.max_model_len, CeilingSource.SERVER_LOG))
    elif by_memory is not None:
        limits.append((by_memory, CeilingSource.DEVICE_MEMORY))
    if variant.kv_cache.tokens is not None:
        limits.append((variant.kv_cache.tokens // variant.max_model_len, CeilingSource.CONFIGURED))
    slots, source = min(limits, key=lambda limit: limit[0])
    return Ceiling(slots=slots, source=source, memory_slots=by_memory)
