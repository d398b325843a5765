"""The fitted timing models that the product carries, and how they are made again."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from neuronfleet.serving.api.evidence import (
    KneePoint,
    ServePoint,
    knee_points,
    serve_points,
    step_costs,
)
from neuronfleet.serving.replica.fit import Free, constants, fit
from neuronfleet.serving.replica.timing import Basis, Buckets, TimingModel

FILE = "timings.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A timing model with what it was measured on."""

    model: str
    """Built-in architecture's name."""
    evidence_model: str
    """Model name in the evidence rows."""
    instance_type: str
    tensor_parallel: int
    max_num_seqs: int
    """Slots that its decode graphs were compiled for: every step pays them all."""
    timing: TimingModel


_START = TimingModel(
    prefill=Buckets(tokens=(256, 512, 1024, 2048), ms=(50.0, 100.0, 200.0, 400.0)),
    prefill_ms_per_token=0.02,
    host_ms=5.0,
    decode=Buckets(tokens=(256, 512, 1024, 2048), ms=(45.0, 50.0, 55.0, 60.0)),
    decode_ms_per_slot=0.1,
    first_ms=500.0,
    basis=Basis.MEASURED,
    source="",
)
"""A round start, so that the fit and not the start decides."""

_FREE = {
    "llama-3.1-8b": Free(
        prefill=(256, 512, 1024, 2048),
        decode=(256, 512, 1024, 2048),
        scalars=("prefill_ms_per_token", "host_ms", "decode_ms_per_slot", "first_ms"),
    ),
    # Prompts of 1023 tokens alone, whose decodes run the two longest buckets.
    "mistral-7b": Free(
        prefill=(1024,), decode=(1024, 2048), scalars=("decode_ms_per_slot", "first_ms")
    ),
    "tinyllama-1.1b": Free(prefill=(256,), decode=(256,), scalars=("first_ms",)),
}
_MEASURED = (
    ("llama-3.1-8b", "Llama-3.1-8B-Instruct", 2, 32),
    ("mistral-7b", "Mistral-7B-Instruct-v0.3", 2, 32),
    ("tinyllama-1.1b", "TinyLlama-1.1B-Chat-v1.0", 2, 4),
)


def rows_of(evidence_model: str, points: Sequence[ServePoint]) -> list[ServePoint]:
    """The good closed-loop rows of one model on inf2.xlarge."""
    return [
        point
        for point in points
        if point.model == evidence_model
        and point.instance_type == "inf2.xlarge"
        and point.status == "ok"
    ]


def knees_of(evidence_model: str) -> list[KneePoint]:
    """The open-loop rows of one model that its client did not hold back."""
    return [one for one in knee_points() if one.model == evidence_model and one.open_loop]


def refit() -> tuple[Fitted, ...]:
    """Fit every measured model anew from the product's own rows (about a minute)."""
    points = serve_points()
    made: list[Fitted] = []
    for model, evidence_model, degree, slots in _MEASURED:
        rows, knees = rows_of(evidence_model, points), knees_of(evidence_model)
        start = _START if not made else _like(made[0].timing, model)
        timing = fit(start, rows, _FREE[model], knees=knees, steps=step_costs(evidence_model))
        if made:
            timing = _fill(timing, made[0].timing, _FREE[model])
        loops = f"{len(rows)} closed-loop and {len(knees)} open-loop"
        source = f"fit of {loops} points of {evidence_model} on inf2.xlarge"
        made.append(
            Fitted(
                model=model,
                evidence_model=evidence_model,
                instance_type="inf2.xlarge",
                tensor_parallel=degree,
                max_num_seqs=slots,
                timing=_named(timing, source),
            )
        )
    return tuple(made)


def _like(first: TimingModel, model: str) -> TimingModel:
    """Start of a model with few rows: the well-measured one's constants.

    TinyLlama has one row, which cannot tell host from device nor one slot from another, so the
    shared constants that it starts from are its size's share of the 8B's.
    """
    if model != "tinyllama-1.1b":
        return first
    share = 1.1 / 8.03
    return TimingModel(
        prefill=first.prefill.times(2 * share),
        prefill_ms_per_token=first.prefill_ms_per_token,
        host_ms=2.0,
        decode=first.decode.times(1.4 * share),
        decode_ms_per_slot=0.0,
        first_ms=first.first_ms * share,
        basis=Basis.MEASURED,
        source="",
    )


def _fill(timing: TimingModel, first: TimingModel, free: Free) -> TimingModel:
    """Buckets without a row of their own: the 8B's, at the ratio of the nearest measured one."""

    def filled(ours: Buckets, theirs: Buckets, known: tuple[int, ...]) -> Buckets:
        ms = []
        for size, cost, other in zip(ours.tokens, ours.ms, theirs.ms, strict=True):
            nearest = min(known, key=lambda tokens: abs(tokens - size))
            at = ours.tokens.index(nearest)
            ms.append(cost if size in known else other * ours.ms[at] / theirs.ms[at])
        return Buckets(tokens=ours.tokens, ms=tuple(ms))

    return TimingModel(
        prefill=filled(timing.prefill, first.prefill, free.prefill),
        prefill_ms_per_token=timing.prefill_ms_per_token,
        host_ms=timing.host_ms,
        decode=filled(timing.decode, first.decode, free.decode),
        decode_ms_per_slot=timing.decode_ms_per_slot,
        first_ms=timing.first_ms,
        basis=timing.basis,
        source=timing.source,
        fitted_to=timing.fitted_to,
    )


def _named(timing: TimingModel, source: str) -> TimingModel:
    """Constants to three decimals: more would be noise, and would drift between machines."""
    from_json = to_row(timing)
    return from_row({**from_json, "source": source})


def to_row(timing: TimingModel) -> dict[str, object]:
    """A timing model as JSON holds it."""
    row: dict[str, object] = {
        name: round(value, 3) for name, value in constants(timing).items() if " " not in name
    }
    for which in ("prefill", "decode"):
        buckets: Buckets = getattr(timing, which)
        row[which] = {
            str(size): round(cost, 3) for size, cost in zip(buckets.tokens, buckets.ms, strict=True)
        }
    return row | {
        "basis": str(timing.basis),
        "source": timing.source,
        "fitted_to": timing.fitted_to,
    }


def from_row(row: dict[str, object]) -> TimingModel:
    """The inverse of `to_row`."""
    values = dict(row)
    for which in ("prefill", "decode"):
        costs = values[which]
        if not isinstance(costs, dict):
            raise ValueError(f"{which} = {costs}, must map bucket tokens to milliseconds")
        values[which] = Buckets(
            tokens=tuple(int(size) for size in costs), ms=tuple(float(c) for c in costs.values())
        )
    values["basis"] = Basis(str(values["basis"]))
    return TimingModel(**values)  # type: ignore[arg-type] # a row of ours, checked by the buckets


def dump(fitted: Sequence[Fitted]) -> str:
    """The committed file's text."""
    rows = [
        {
            "model": one.model,
            "evidence_model": one.evidence_model,
            "instance_type": one.instance_type,
            "tensor_parallel": one.tensor_parallel,
            "max_num_seqs": one.max_num_seqs,
            "timing": to_row(one.timing),
        }
        for one in fitted
    ]
    return json.dumps(rows, indent=1) + "\n"


@cache
def fitted() -> tuple[Fitted, ...]:
    """The committed fits."""
    rows = json.loads(resources.files(__package__).joinpath(FILE).read_text())
    return tuple(Fitted(**{**row, "timing": from_row(row["timing"])}) for row in rows)


def timing_of(evidence_model: str, tensor_parallel: int | None) -> TimingModel | None:
    """The committed fit of a model as evidence names it; None where there is none."""
    for one in fitted():
        if one.evidence_model == evidence_model and tensor_parallel in (
            None,
            one.tensor_parallel,
        ):
            return one.timing
    return None
