"""The least time that a replica's memory bandwidth and arithmetic allow. Pure arithmetic.

A decode step reads, on each rank, its share of the dense weights, the experts that the batch
routes to, each sequence's keys, values and recurrent state. What has fewer heads than ranks is
held by several ranks. Collectives and launches are left out: this is a bound, not a prediction.
"""

from neuronfleet.serving.api.architecture import DTYPE_BYTES, Architecture
from neuronfleet.serving.api.hardware import InstanceType
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.replica.timing import Basis, Buckets, TimingModel


def unique_experts(architecture: Architecture, batch: int) -> float:
    """Experts that a batch touches in one layer, expected under uniform routing.

    256 experts, 8 a token: 8 at batch 1, 57.4 at batch 8.
    """
    if not architecture.experts:
        return 0.0
    untouched = (1 - architecture.experts_per_token / architecture.experts) ** batch
    return architecture.experts * (1 - untouched)


def step_bytes(architecture: Architecture, variant: Variant, batch: int, context: int) -> float:
    """Bytes that one rank reads and writes in a decode step at `context` tokens a sequence."""
    ranks = variant.tensor_parallel
    width = DTYPE_BYTES[variant.weight_dtype]
    kv_copies = max(1.0, ranks / architecture.kv_heads)
    kv_projection = (
        2
        * architecture.attention_layers
        * architecture.hidden
        * architecture.kv_heads
        * architecture.head_dim
    )
    router = architecture.layers * architecture.hidden * architecture.experts
    replicated = kv_projection * (kv_copies - 1) + router * (ranks - 1)
    routed = (
        architecture.layers * unique_experts(architecture, batch) * architecture.expert_parameters
    )
    weights = (architecture.dense_parameters + replicated + routed) * width / ranks
    kv = architecture.kv_bytes_per_token(variant.kv_cache.dtype) * kv_copies / ranks
    # The recurrent state is read and written back.
    state = 2 * architecture.state_bytes / ranks
    return weights + batch * (kv * context + state)


def rank_gb_per_s(instance: InstanceType, variant: Variant) -> float | None:
    """Memory bandwidth of one rank; None where the catalog does not know it."""
    if instance.hbm_gb_per_s is None:
        return None
    return instance.hbm_gb_per_s * variant.node_share / variant.tensor_parallel


def step_ms(architecture: Architecture, variant: Variant, batch: int, context: int) -> float | None:
    """Least milliseconds of a decode step; None where the bandwidth is unknown."""
    bandwidth = rank_gb_per_s(variant.instance, variant)
    if bandwidth is None:
        return None
    return step_bytes(architecture, variant, batch, context) / bandwidth / 1e6


def timing(architecture: Architecture, variant: Variant) -> TimingModel | None:
    """The bound as a timing model, linear in occupied slots between 1 and max_num_seqs."""
    tflops = variant.instance.bf16_tflops
    buckets = variant.prompt_buckets
    one = [step_ms(architecture, variant, 1, size) for size in buckets]
    full = step_ms(architecture, variant, variant.max_num_seqs, buckets[-1])
    bandwidth = rank_gb_per_s(variant.instance, variant)
    if tflops is None or full is None or bandwidth is None or one[-1] is None:
        return None
    flops_per_ms = tflops * variant.node_share * 1e9
    weights = step_bytes(architecture, variant, 1, 0)
    prefill = tuple(
        max(2 * architecture.active_parameters * size / flops_per_ms, weights / bandwidth / 1e6)
        for size in buckets
    )
    slots = max(1, variant.max_num_seqs - 1)
    return TimingModel(
        prefill=Buckets(tokens=buckets, ms=prefill),
        decode=Buckets(tokens=buckets, ms=tuple(ms for ms in one if ms is not None)),
        decode_ms_per_slot=(full - one[-1]) / slots,
        basis=Basis.ROOFLINE,
        source=f"memory bandwidth and bf16 peak of {variant.instance.name}",
    )
