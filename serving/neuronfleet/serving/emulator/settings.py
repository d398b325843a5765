"""What an emulated replica is: settings, validated on construction, to and from JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.emulator.faults import Fault
from neuronfleet.serving.replica.timing import Basis, Buckets, TimingModel

T = TypeVar("T")
E = TypeVar("E", Basis, Fault)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootSettings:
    """Durations of the boot's phases, in emulated seconds."""

    node_seconds: float = 0.0
    image_seconds: float = 0.0
    weights_seconds: float = 0.0
    graphs_hit_seconds: float = 0.0
    graphs_miss_seconds: float = 0.0
    """Replaces `graphs_hit_seconds` where the graphs have to be compiled."""
    warm_up_seconds: float = 0.0
    graph_hit: bool = True
    missed_field: str | None = None
    """Field of the graph key that differed, for the log of a miss."""

    def __post_init__(self) -> None:
        problems = [
            Problem(path=one.name, value=value, allowed="must be in [0, inf)")
            for one in fields(self)
            if one.name.endswith("_seconds") and (value := getattr(self, one.name)) < 0
        ]
        if problems:
            raise SpecError.of("boot settings", problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """One emulated replica."""

    models: tuple[str, ...]
    """Names that it answers to; metrics carry the first."""
    timing: TimingModel
    slots: int
    """max_num_seqs."""
    max_model_len: int
    kv_tokens: int | None = None
    """KV tokens that the device holds; None where memory does not bind before `slots`."""
    host: str = "127.0.0.1"
    port: int = 0
    """API port, bound once the boot has ended; 0 takes a free one."""
    state_port: int | None = None
    """Port that answers from the start with the boot's phase; None for no such port."""
    boot: BootSettings = BootSettings()
    generation: int = 2
    """Backend generation: 1 is vLLM on NxDI, 2 the plugin without it."""
    weights_bytes: int | None = None
    """Size that generation 2 exports as loaded; None exports nothing."""
    time_scale: float = 1.0
    """Emulated seconds a real second."""
    stream_interval: int = 1
    """Tokens a chunk after the first, as vLLM's --stream-interval."""
    faults: tuple[Fault, ...] = ()
    slow_boot_factor: float = 3.0
    void_above_ms: float = 150.0
    """Emulated lateness at p99 that voids a run: 5 % of a 3 s TTFT objective."""
    drain_seconds: float = 120.0
    """Emulated seconds that running streams get after SIGTERM."""
    seed: int = 0
    """Of request ids."""

    def __post_init__(self) -> None:
        problems = [
            Problem(path=path, value=value, allowed=f"must be in {allowed}")
            for path, value, good, allowed in self._checks()
            if not good
        ]
        if problems:
            raise SpecError.of("replica settings", problems)

    def _checks(self) -> list[tuple[str, object, bool, str]]:
        ports = "[0, 65535]"
        state, kv = self.state_port, self.kv_tokens
        return [
            ("models", self.models, bool(self.models) and all(self.models), "[1 name, ...]"),
            ("slots", self.slots, 1 <= self.slots <= 4096, "[1, 4096]"),
            ("max_model_len", self.max_model_len, self.max_model_len >= 2, "[2, inf)"),
            ("kv_tokens", kv, kv is None or kv >= self.max_model_len, "[max_model_len, inf)"),
            ("port", self.port, 0 <= self.port <= 65535, ports),
            ("state_port", state, state is None or 0 <= state <= 65535, ports),
            ("generation", self.generation, self.generation in (1, 2), "[1, 2]"),
            ("time_scale", self.time_scale, 0 < self.time_scale <= 1e6, "(0, 1000000]"),
            ("stream_interval", self.stream_interval, self.stream_interval >= 1, "[1, inf)"),
            ("slow_boot_factor", self.slow_boot_factor, self.slow_boot_factor >= 1, "[1, inf)"),
            ("void_above_ms", self.void_above_ms, self.void_above_ms > 0, "(0, inf)"),
            ("drain_seconds", self.drain_seconds, self.drain_seconds >= 0, "[0, inf)"),
        ]

    @property
    def model(self) -> str:
        """The name that metrics carry."""
        return self.models[0]

    @property
    def ceiling(self) -> int:
        """Sequences that run at once: law 1 of the design."""
        if self.kv_tokens is None:
            return self.slots
        return min(self.slots, self.kv_tokens // self.max_model_len)

    @property
    def logged_kv_tokens(self) -> int:
        """KV tokens as the boot log gives them; generation 1 only echoes its settings."""
        if self.generation == 1:
            return (self.slots + 1) * self.max_model_len
        return self.slots * self.max_model_len if self.kv_tokens is None else self.kv_tokens

    @property
    def block_size(self) -> int:
        """Tokens a KV block: generation 1 without prefix caching has one block a sequence."""
        return self.max_model_len if self.generation == 1 else 32


def to_json(settings: ReplicaSettings) -> str:
    """The settings as a JSON object."""
    return json.dumps(asdict(settings), indent=2)


def from_json(text: str) -> ReplicaSettings:
    """Settings from the object that `to_json` wrote.

    Raises:
        SpecError: the text is no such object.
    """
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        raise SpecError(f"settings = {text[:40]!r}, must be JSON: {error}") from error
    return from_mapping(raw)


def from_mapping(raw: object) -> ReplicaSettings:
    """Settings from parsed JSON."""
    return _build(ReplicaSettings, raw, "settings")


_NESTED: dict[str, Callable[[Any, str], object]] = {
    "timing": lambda raw, path: _build(TimingModel, raw, path),
    "boot": lambda raw, path: _build(BootSettings, raw, path),
    "prefill": lambda raw, path: _build(Buckets, raw, path),
    "decode": lambda raw, path: _build(Buckets, raw, path),
    "basis": lambda raw, path: _member(Basis, raw, path),
    "faults": lambda raw, path: tuple(_member(Fault, one, path) for one in _list(raw, path)),
    "models": lambda raw, path: tuple(_string(one, path) for one in _list(raw, path)),
    "tokens": lambda raw, path: tuple(int(_number(one, path)) for one in _list(raw, path)),
    "ms": lambda raw, path: tuple(_number(one, path) for one in _list(raw, path)),
}
_STRINGS = {"host", "source", "missed_field"}
_FRACTIONS = {"time_scale", "slow_boot_factor", "void_above_ms"}


def _build(cls: type[T], raw: object, path: str) -> T:
    if not isinstance(raw, Mapping):
        raise SpecError(f"{path} = {raw!r}, must be an object")
    known = {one.name for one in fields(cls)}  # type: ignore[arg-type]  # dataclasses only
    if unknown := set(raw) - known:
        raise SpecError(
            f"{path}.{min(unknown)} = {raw[min(unknown)]!r}, must be in {sorted(known)}"
        )
    values = {name: _value(name, value, f"{path}.{name}") for name, value in raw.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise SpecError(f"{path} = {sorted(raw)}, must be complete: {error}") from error


def _value(name: str, raw: Any, path: str) -> object:
    if raw is None:
        return None
    if name in _NESTED:
        return _NESTED[name](raw, path)
    if name in _STRINGS:
        return _string(raw, path)
    if name == "graph_hit":
        if not isinstance(raw, bool):
            raise SpecError(f"{path} = {raw!r}, must be in [true, false]")
        return raw
    if name in _FRACTIONS or name.endswith(("_seconds", "_ms", "_per_token", "_per_slot")):
        return _number(raw, path)
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise SpecError(f"{path} = {raw!r}, must be a whole number")
    return raw


def _list(raw: object, path: str) -> list[Any]:
    if not isinstance(raw, list):
        raise SpecError(f"{path} = {raw!r}, must be a list")
    return raw


def _string(raw: object, path: str) -> str:
    if not isinstance(raw, str):
        raise SpecError(f"{path} = {raw!r}, must be a string")
    return raw


def _number(raw: object, path: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise SpecError(f"{path} = {raw!r}, must be a number")
    return raw


def _member(kind: type[E], raw: Any, path: str) -> E:
    try:
        return kind(raw)
    except ValueError as error:
        names = [one.value for one in kind]
        raise SpecError(f"{path} = {raw!r}, must be in {names}") from error
