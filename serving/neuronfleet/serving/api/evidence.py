"""Evidence: measured runs as typed rows, each naming its source."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from neuronfleet.serving.api.problems import Problem, SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a client reports of a run. None is not measured."""

    output_tok_per_s: float | None
    """By requested tokens: a client that skips empty chunks undercounts."""
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    tpot_p50_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServePoint:
    """One closed-loop measurement of a server. None is not measured."""

    lane: str
    instance_type: str
    accelerator: str
    model: str
    weights: str
    tensor_parallel: int | None
    max_model_len: int | None
    max_num_seqs: int | None
    input_tokens: int
    """Prompt tokens asked for."""
    input_tokens_observed: int | None
    """Prompt tokens that the server counted, where its log tells."""
    output_tokens: int
    concurrency: int
    first_after_boot: bool
    """Whether it held the first request of its server."""
    requests: int | None
    figures: Figures
    status: str
    source: str

    @property
    def prompt_tokens(self) -> int:
        """Prompt length as the server saw it, or as asked where it does not say."""
        return self.input_tokens_observed or self.input_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class KneePoint:
    """One open-loop measurement: Poisson arrivals at a rate, with the attainment it had."""

    model: str
    instance_type: str
    input_tokens: int
    output_tokens: int
    rate: float
    """Requests a second offered."""
    seed: int
    window_s: float
    workers: int
    """Requests that the client could hold at once."""
    requests: int
    ttft_objective_ms: float
    tpot_objective_ms: float
    attainment: float
    """Share of requests that met both objectives."""
    figures: Figures
    first_after_boot: bool
    """Whether it held the first request of its server: the lowest rate did."""
    open_loop: bool
    """False where the client's pool filled, so that arrivals waited for it."""
    source: str


class _Row:
    """One CSV row that notes what is wrong with its cells."""

    def __init__(self, at: int, cells: Mapping[str, str | None], problems: list[Problem]) -> None:
        self._at, self._cells, self._problems = at, cells, problems

    def text(self, name: str) -> str:
        """A cell, empty where absent."""
        return (self._cells.get(name) or "").strip()

    def number(self, name: str, *, low: float = 0.0) -> float | None:
        """A number of at least `low`, None where the cell is empty."""
        text = self.text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value < float("inf"):
            self._wrong(name, text, f"must be a number of at least {low:g}")
            return None
        return value

    def count(self, name: str, *, required: bool = False) -> int | None:
        """A whole number in [1, 1048576]: more is no measurement, and would take for ever."""
        value = self.number(name, low=1)
        if value is not None and value > _MOST:
            self._wrong(name, self.text(name), f"must be in [1, {_MOST}]")
            return None
        if value is None and required and not self.text(name):
            self._wrong(name, "nothing", "must be given")
        return None if value is None else int(value)

    def needed(self, name: str) -> int:
        """A whole number from 1 that must be there."""
        return self.count(name, required=True) or 1

    def _wrong(self, name: str, value: str, allowed: str) -> None:
        path = f"row {self._at}, {name}"
        self._problems.append(Problem(path=path, value=value, allowed=allowed))


_MOST = 1_048_576
_SERVE_COLUMNS = ("model", "isl_tokens", "osl_tokens", "concurrency", "status")


def parse_serve_points(text: str, source: str) -> tuple[ServePoint, ...]:
    """Serve points from CSV text with the columns of the product's own serve.csv.

    Raises:
        SpecError: a needed column is missing or a cell is not what its column says.
    """
    try:
        reader = csv.DictReader(io.StringIO(text))
        rows, names = list(reader), reader.fieldnames or ()
    except csv.Error as wrong:
        raise SpecError(f"{source}: {wrong}, must be a CSV file") from wrong
    missing = [name for name in _SERVE_COLUMNS if name not in names]
    if missing:
        raise SpecError(f"{source}: columns = {', '.join(missing)} missing, must be given")
    problems: list[Problem] = []
    points = tuple(_serve_point(_Row(at, row, problems)) for at, row in enumerate(rows, start=2))
    if problems:
        raise SpecError.of(source, problems)
    return points


def _serve_point(row: _Row) -> ServePoint:
    return ServePoint(
        lane=row.text("lane"),
        instance_type=row.text("instance_type"),
        accelerator=row.text("accelerator"),
        model=row.text("model"),
        weights=row.text("weights"),
        tensor_parallel=row.count("tp_degree"),
        max_model_len=row.count("max_model_len_tokens"),
        max_num_seqs=row.count("max_num_seqs"),
        input_tokens=row.needed("isl_tokens"),
        input_tokens_observed=row.count("isl_tokens_server_observed"),
        output_tokens=row.needed("osl_tokens"),
        concurrency=row.needed("concurrency"),
        first_after_boot=row.text("first_after_boot") == "yes",
        requests=row.count("num_prompts"),
        figures=_figures(row, "output_tok_per_s_by_requested_tokens"),
        status=row.text("status"),
        source=f"{row.text('source_file')} at {row.text('source_commit')[:7]}",
    )


def _figures(row: _Row, throughput: str) -> Figures:
    return Figures(
        output_tok_per_s=row.number(throughput),
        ttft_p50_ms=row.number("p50_ttft_ms"),
        ttft_p99_ms=row.number("p99_ttft_ms"),
        tpot_p50_ms=row.number("p50_tpot_ms"),
    )


def serve_points(path: Path | None = None) -> tuple[ServePoint, ...]:
    """Serve points of a file, or the product's own."""
    if path is None:
        return parse_serve_points(_own("serve.csv"), "serve.csv")
    try:
        return parse_serve_points(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "not UTF-8 text"
        raise SpecError(f"{path}: {reason}, must be a readable CSV file") from wrong


def gpu_points() -> tuple[ServePoint, ...]:
    """Second-hand GPU throughputs; their latencies are not known."""
    return parse_serve_points(_own("gpu.csv"), "gpu.csv")


def knee_points() -> tuple[KneePoint, ...]:
    """The product's own open-loop points."""
    rows = table("knee.csv")
    return tuple(
        KneePoint(
            model=row["model"],
            instance_type=row["instance_type"],
            input_tokens=int(row["isl_tokens"]),
            output_tokens=int(row["osl_tokens"]),
            rate=float(row["offered_rate_req_per_s"]),
            seed=int(row["seed"]),
            window_s=float(row["admission_window_s"]),
            workers=int(row["client_pool_workers"]),
            requests=int(row["requests_offered"]),
            ttft_objective_ms=float(row["slo_ttft_ms"]),
            tpot_objective_ms=float(row["slo_tpot_ms"]),
            attainment=float(row["slo_attainment_pct"]) / 100,
            figures=_figures(_Row(0, row, []), "output_tok_per_s"),
            first_after_boot=row is rows[0],
            open_loop=row["open_loop_valid"] == "yes",
            source=f"{row['source_file']} at {row['source_commit'][:7]}",
        )
        for row in rows
    )


def step_costs(model: str) -> dict[int, float]:
    """Decode step milliseconds by length bucket, where the study read them off its logs."""
    return {
        int(row["length_bucket"]): float(row["step_ms"])
        for row in table("steps.csv")
        if row["model"] == model
    }


def table(name: str) -> list[dict[str, str]]:
    """Rows of another of the product's evidence files, as text."""
    return list(csv.DictReader(io.StringIO(_own(name))))


def _own(name: str) -> str:
    return resources.files(__package__).joinpath(f"evidence/{name}").read_text()
