"""The replica that a pod is to run: what the controller writes to NEURONFLEET_REPLICA."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from neuronfleet_replica.fields import Fields, SettingsError

VARIABLE = "NEURONFLEET_REPLICA"
DTYPES = ("float32", "bfloat16", "float16", "fp8", "int8")
_LONGEST = 1_048_576
_METHODS = {1: ("draft", "eagle"), 2: ("eagle3", "dflash")}
"""Speculation that each generation runs: its user guide's list."""
SEGMENTS = (512, 1024, 2048, 4096, 8192)
"""Sizes that generation 2 can prefill a prompt by."""


class SourceKind(StrEnum):
    """Where weights come from."""

    HUGGING_FACE = "huggingFace"
    S3 = "s3"
    PVC = "pvc"
    PATH = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the weights are."""

    kind: SourceKind
    location: str
    """A hub id, `s3://bucket/prefix`, `claim/path` or a directory."""
    revision: str | None
    """Commit of a hub repository; None takes its default branch as it is at boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Speculative decoding."""

    method: str
    draft_model: str | None
    """A hub id where the model comes from the hub, else a directory."""
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """How the model is served."""

    name: str
    generation: int
    tensor_parallel: int
    logical_core_size: int | None
    """None leaves the runtime's own, which is right on chips that have but one."""
    max_model_len: int
    max_num_seqs: int
    weight_dtype: str
    compute_dtype: str
    kv_dtype: str
    kv_blocks: int | None
    kv_block_size: int
    prefill_buckets: tuple[int, ...]
    decode_buckets: tuple[int, ...]
    speculation: Speculation | None
    extra_args: tuple[str, ...]
    env: dict[str, str]

    @property
    def segmented(self) -> bool:
        """Whether generation 2 prefills a long prompt in parts."""
        return bool(self.prefill_buckets) and self.prefill_buckets[-1] < self.max_model_len

    @property
    def ceiling(self) -> int:
        """Sequences that run at once: law 1, as far as the settings tell."""
        if self.kv_blocks is None:
            return self.max_num_seqs
        return min(self.max_num_seqs, self.kv_blocks * self.kv_block_size // self.max_model_len)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """The question whose answer tells that the replica is well."""

    prompt: str
    max_tokens: int
    expect: str | None
    """Regular expression that the answer must hold; None asks for any text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One replica."""

    model: str
    """Name that clients ask for."""
    source: Source
    variant: Variant
    canary: Canary
    port: int
    ignored: tuple[str, ...] = ()
    """Fields that were given and that this image knows nothing of."""


def from_environment(environ: Mapping[str, str]) -> Settings:
    """The settings of this pod.

    Raises:
        SettingsError: they are missing, or one is out of its range.
    """
    text = environ.get(VARIABLE)
    if not text:
        raise SettingsError(f"{VARIABLE} is missing, must hold the replica's settings as JSON")
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise SettingsError(f"{VARIABLE} = {text[:40]!r}, must be JSON: {error}") from error
    return parse(raw)


def parse(raw: object) -> Settings:
    """Settings from parsed JSON; see `from_environment`."""
    ignored: list[str] = []
    fields = Fields(raw, "", ignored)
    model = fields.section("model")
    settings = Settings(
        model=model.text("name"),
        source=_source(model.section("source")),
        variant=_variant(fields.section("variant")),
        canary=_canary(fields.section("canary")),
        port=fields.integer("port", 1, 65_535, 8000),
    )
    model.close()
    fields.close()
    return replace(settings, ignored=tuple(ignored))


def _source(fields: Fields) -> Source:
    source = Source(
        kind=SourceKind(fields.choice("kind", list(SourceKind))),
        location=fields.text("location"),
        revision=fields.optional("revision", r"[\w./-]+"),
    )
    patterns = {
        SourceKind.HUGGING_FACE: r"[\w.-]+/[\w.-]+",
        SourceKind.S3: r"s3://[a-z0-9.-]+(/.*)?",
        SourceKind.PVC: r"[a-z0-9-]+(/.*)?",
        SourceKind.PATH: r"/.*",
    }
    if not re.fullmatch(patterns[source.kind], source.location):
        allowed = f"like {patterns[source.kind]} where kind is {source.kind}"
        raise fields.error("location", source.location, allowed)
    if ".." in source.location.split("/"):
        raise fields.error("location", source.location, "without a part `..`")
    fields.close()
    return source


def _variant(fields: Fields) -> Variant:
    generation = fields.integer("generation", 1, 2)
    length = fields.integer("maxModelLen", 2, _LONGEST)
    cache = fields.maybe_section("kvCache") or Fields({}, fields.where("kvCache"), [])
    compute = fields.choice("computeDtype", DTYPES[:3], "bfloat16")
    variant = Variant(
        name=fields.text("name"),
        generation=generation,
        tensor_parallel=fields.integer("tensorParallelDegree", 1, 1024, 1),
        logical_core_size=fields.maybe_integer("logicalCoreSize", 1, 2),
        max_model_len=length,
        max_num_seqs=fields.integer("maxNumSeqs", 1, 4096),
        weight_dtype=fields.choice("weightDtype", DTYPES, compute),
        compute_dtype=compute,
        kv_dtype=cache.choice("dtype", DTYPES, compute),
        kv_blocks=cache.maybe_integer("blocks", 1, 10_000_000),
        kv_block_size=cache.integer("blockSize", 1, 65_536, 32),
        prefill_buckets=fields.sizes("prefillBuckets", length),
        decode_buckets=fields.sizes("decodeBuckets", length),
        speculation=_speculation(fields.maybe_section("speculation"), generation),
        extra_args=fields.texts("extraArgs"),
        env=fields.pairs("env"),
    )
    if variant.ceiling < 1:
        allowed = f"at least {-(-length // variant.kv_block_size)}: maxModelLen = {length} tokens"
        raise cache.error("blocks", variant.kv_blocks, allowed)
    cache.close()
    fields.close()
    if generation == 2:
        _check_generation_2(variant, fields)
    return variant


def _check_generation_2(variant: Variant, fields: Fields) -> None:
    """Shapes that its kernels take: the plugin's configuration reference."""
    if any(size % 128 for size in variant.decode_buckets if size < variant.max_model_len):
        allowed = "multiples of 128 in generation 2"
        raise fields.error("decodeBuckets", list(variant.decode_buckets), allowed)
    if variant.segmented and any(size not in SEGMENTS for size in variant.prefill_buckets):
        allowed = f"of {list(SEGMENTS)} in generation 2 where the last is below maxModelLen"
        raise fields.error("prefillBuckets", list(variant.prefill_buckets), allowed)


def _speculation(fields: Fields | None, generation: int) -> Speculation | None:
    if fields is None:
        return None
    speculation = Speculation(
        method=fields.choice("method", _METHODS[generation]),
        draft_model=fields.optional("draftModel", r"/\S+|[\w.-]+/[\w.-]+"),
        tokens=fields.integer("tokens", 1, 64),
    )
    fields.close()
    return speculation


def _canary(fields: Fields) -> Canary:
    expect = fields.optional("expect")
    try:
        re.compile(expect or "")
    except re.error as error:
        raise fields.error("expect", expect, f"a regular expression: {error}") from error
    canary = Canary(
        prompt=fields.text("prompt"),
        max_tokens=fields.integer("maxTokens", 1, 1024, 4),
        expect=expect,
    )
    fields.close()
    return canary
