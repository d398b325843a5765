"""What configuration alone is worth: the one change that lowers dollars a token most."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.variant import Variant
from neuronfleet.serving.planner import capacity
from neuronfleet.serving.planner.ceiling import ceiling
from neuronfleet.serving.planner.plan import Row
from neuronfleet.serving.planner.timing import timing_for
from neuronfleet.serving.planner.walls import walls
from neuronfleet.serving.replica.timing import Basis

_GRAIN = 128
"""Bucket lengths that graphs are compiled for are multiples of this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change of one variant, with what it is worth at the objective (simulated)."""

    variant: str
    change: str
    """As it would stand in the spec: `buckets.prefill: 1024 -> 640`."""
    usd_per_million_before: float
    """Dollars a million output tokens at the knee, as configured."""
    usd_per_million_after: float
    extrapolated: bool
    """Whether it leaves what was measured: other compiled slots than the evidence has."""

    @property
    def gain(self) -> float:
        """Share of the dollars saved."""
        return 1 - self.usd_per_million_after / self.usd_per_million_before


def advise(fleet: ServingFleet, row: Row) -> Advice | None:
    """The best single change for a row; None where nothing known helps."""
    before = _dollars_at_knee(fleet, row.variant, row)
    if before is None or row.basis is Basis.ROOFLINE:
        return None
    best: Advice | None = None
    for change, variant, extrapolated in _changes(fleet, row):
        after = None if walls(fleet, variant) else _dollars_at_knee(fleet, variant, row)
        if after is None or after >= (best.usd_per_million_after if best else before) * 0.999:
            continue
        best = Advice(
            variant=row.variant.name,
            change=change,
            usd_per_million_before=before,
            usd_per_million_after=after,
            extrapolated=extrapolated,
        )
    return best


def _dollars_at_knee(fleet: ServingFleet, variant: Variant, row: Row) -> float | None:
    """Price of one replica over what it puts out at the highest rate that attains the target."""
    timing = timing_for(fleet.model.architecture, variant)
    if timing is None or row.price is None or not variant.instance.is_neuron:
        return None
    output = fleet.traffic.output_tokens.mean
    knee = capacity.knee(
        timing,
        slots=ceiling(fleet.model.architecture, variant).slots,
        objective=fleet.objective,
        prompt_tokens=round(fleet.traffic.input_tokens.mean),
        output_tokens=round(output),
    )
    if not knee:
        return None
    share = row.price.usd_per_hour / variant.replicas_per_node
    return share / (knee * output * 3600) * 1e6


def _changes(fleet: ServingFleet, row: Row) -> Iterator[tuple[str, Variant, bool]]:
    """Every single change worth trying: (words, variant, extrapolated)."""
    variant = row.variant
    prompt, output = fleet.traffic.input_tokens.longest, fleet.traffic.output_tokens.longest
    yield from _bucket_changes(variant, prompt, prompt + output)
    needed = _next(prompt + output)
    if needed < variant.max_model_len:
        shorter = replace(variant, max_model_len=needed, prefill_buckets=(), decode_buckets=())
        yield f"maxModelLen: {variant.max_model_len} -> {needed}", shorter, False
    by_memory = row.ceiling.memory_slots or variant.max_num_seqs
    for seqs in sorted({variant.max_num_seqs // 2, variant.max_num_seqs * 3 // 2, by_memory}):
        if 0 < seqs <= by_memory and seqs != variant.max_num_seqs:
            words = f"maxNumSeqs: {variant.max_num_seqs} -> {seqs}"
            yield words, replace(variant, max_num_seqs=seqs), True


def _bucket_changes(
    variant: Variant, prompt: int, longest: int
) -> Iterator[tuple[str, Variant, bool]]:
    """A bucket just longer than the prompts, and one just longer than whole sequences."""
    prefill = variant.prompt_buckets
    decode = variant.decode_buckets or prefill
    for words, field, sizes, length in (
        ("buckets.prefill", "prefill_buckets", prefill, prompt),
        ("buckets.decode", "decode_buckets", decode, longest),
    ):
        fit = _next(length)
        runs = min((size for size in sizes if size > length), default=sizes[-1])
        if fit >= runs:
            continue
        wider = tuple(sorted({*sizes, fit}))
        # The other list stays as it was compiled.
        both = {"prefill_buckets": prefill, "decode_buckets": decode} | {field: wider}
        changed = replace(
            variant, prefill_buckets=both["prefill_buckets"], decode_buckets=both["decode_buckets"]
        )
        yield f"{words}: add {fit} (they run {runs})", changed, False


def _next(tokens: int) -> int:
    """The least multiple of the grain that is strictly longer."""
    return (tokens // _GRAIN + 1) * _GRAIN
