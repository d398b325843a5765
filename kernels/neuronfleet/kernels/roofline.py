"""The least bytes that each op moves between device memory and core, and the time they take.

Weights, keys and values are bfloat16, recurrent states float32, convolution tails bfloat16. What
every op reads and writes of the residual stream, 4 KiB a token, is left out, and so is arithmetic:
a token needs 5.9 GFLOP of 667 TFLOP/s, 9 us a chip. The tables in the ops' DESIGN.md are `table`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass

from neuronfleet.kernels.shapes import QWEN3_5_35B_A3B, ModelShape

RANK_GB_PER_S = 725.0
"""Device memory bandwidth of one rank: 2.9 TB/s of a trn2 chip over 4 ranks of 2 cores."""
_BF16, _FP32 = 2, 4
_RANKS = 4
_CONTEXTS = (4096, 32768, 131072)
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes of one op in one decode step on one rank."""

    weights: float
    carried: float
    """State, keys and values, read and written."""

    @property
    def us(self) -> float:
        """Least microseconds at the rank's bandwidth."""
        return (self.weights + self.carried) / RANK_GB_PER_S / 1e3


def unique_experts(shape: ModelShape, batch: int) -> float:
    """Experts that a batch touches in a layer, expected under uniform routing: 57.4 at batch 8."""
    return shape.experts * (1 - (1 - shape.experts_per_token / shape.experts) ** batch)


def rmsnorm(shape: ModelShape, batch: int, context: int) -> Traffic:
    """The norm before a mixer or before the experts."""
    return Traffic(weights=_BF16 * shape.hidden, carried=0)


def rope(shape: ModelShape, batch: int, context: int) -> Traffic:
    """A float32 row of cosines and sines for each sequence."""
    return Traffic(weights=0, carried=_FP32 * shape.rotary_dim * batch)


def router(shape: ModelShape, batch: int, context: int) -> Traffic:
    """The router's weight."""
    return Traffic(weights=_BF16 * shape.experts * shape.hidden, carried=0)


def deltanet_state(shape: ModelShape, batch: int, context: int) -> Traffic:
    """The narrow kernel: every sequence's matrices, read and written."""
    matrices = shape.value_heads * shape.key_dim * shape.value_dim
    return Traffic(weights=0, carried=2 * _FP32 * matrices * batch)


def deltanet(shape: ModelShape, batch: int, context: int) -> Traffic:
    """A whole DeltaNet layer."""
    rows = shape.conv_channels + shape.value_channels + 2 * shape.value_heads
    weights = shape.hidden * (rows + shape.value_channels) + shape.conv_channels * shape.conv_width
    small = _FP32 * 2 * shape.value_heads + _BF16 * shape.value_dim
    tail = 2 * _BF16 * shape.conv_channels * (shape.conv_width - 1) * batch
    matrices = deltanet_state(shape, batch, context).carried
    return Traffic(weights=_BF16 * weights + small, carried=matrices + tail)


def gqa(shape: ModelShape, batch: int, context: int) -> Traffic:
    """A whole attention layer; the new token's keys and values are written."""
    channels = 3 * shape.heads + 2 * shape.kv_heads
    weights = shape.hidden * shape.head_dim * channels + 2 * shape.head_dim
    token = 2 * _BF16 * shape.kv_heads * shape.head_dim
    return Traffic(weights=_BF16 * weights, carried=token * context * batch)


def moe(shape: ModelShape, batch: int, context: int) -> Traffic:
    """Router, the experts that the batch touches, the shared expert and its gate."""
    experts = 3 * shape.hidden * shape.expert_width * unique_experts(shape, batch)
    always = shape.hidden * (shape.experts + 1 + 3 * shape.shared_width)
    return Traffic(weights=_BF16 * (experts + always), carried=0)


def lm_head(shape: ModelShape, batch: int, context: int) -> Traffic:
    """The head, every tile of it."""
    return Traffic(weights=_BF16 * shape.vocabulary * shape.hidden, carried=0)


def step_us(shape: ModelShape, batch: int, context: int) -> float:
    """Least microseconds of a whole decode step on one rank, collectives left out."""
    attention = shape.layers // shape.full_attention_interval
    mixers = (shape.layers - attention) * deltanet(shape, batch, context).us
    mixers += attention * gqa(shape, batch, context).us
    return mixers + shape.layers * moe(shape, batch, context).us + lm_head(shape, batch, context).us


Op = Callable[[ModelShape, int, int], Traffic]
OPS: dict[str, tuple[Op, ...]] = {
    "rmsnorm": (rmsnorm,),
    "rope": (rope,),
    "router": (router,),
    "deltanet": (deltanet_state, deltanet),
    "gqa": (gqa,),
    "moe": (moe,),
    "lm_head": (lm_head,),
}
"""By the folder of the op."""


def table(op: str) -> str:
    """The roofline table of an op's DESIGN.md, for Qwen3.5-35B-A3B."""
    head = "| kernel | shape | batch | context | weights KiB | state or KV KiB | us |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for function in OPS[op]:
        for ranks in (_RANKS, 1):
            for batch in (1, 2, 4, 8):
                lines += [_row(function, ranks, batch, context) for context in _contexts(op)]
    return "\n".join(lines)


def _contexts(op: str) -> tuple[int, ...]:
    """Only attention reads more the longer the context is."""
    return _CONTEXTS if op == "gqa" else _CONTEXTS[:1]


def _row(function: Op, ranks: int, batch: int, context: int) -> str:
    shape = QWEN3_5_35B_A3B.ranked(ranks)
    traffic = function(shape, batch, context)
    place = f"TP {ranks}" if ranks > 1 else "full"
    seen = f"{context}" if function is gqa else "any"
    weights, carried = traffic.weights / _KIB, traffic.carried / _KIB
    return (
        f"| {function.__name__} | {place} | {batch} | {seen} "
        f"| {weights:,.1f} | {carried:,.1f} | {traffic.us:,.2f} |"
    )
