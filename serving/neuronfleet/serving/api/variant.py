"""A variant: one way to serve a model, with every field of its graph key."""

import math
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from neuronfleet.serving.api.architecture import DTYPE_BYTES
from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.hardware import InstanceType, catalog

_NAME = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"


class CapacityType(StrEnum):
    """How an instance is bought."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity-block"
    RESERVED = "reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A capacity block or on-demand reservation that replicas are launched into."""

    id: str
    """Id of the reservation, as `cr-0123456789abcdef0`."""
    ends_at: datetime | None
    """When the capacity is gone; None while open-ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """KV cache settings; they are baked into the graphs."""

    dtype: str = "bfloat16"
    """Type of keys and values; a narrower one holds more tokens."""
    blocks: int | None = None
    """Block count; None lets the server derive it, which changes the graph key with memory."""
    block_size: int = 32
    """Tokens a block (generation 2)."""

    @property
    def tokens(self) -> int | None:
        """Tokens that the configured blocks hold."""
        return None if self.blocks is None else self.blocks * self.block_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """Speculative decoding."""

    method: str
    """How tokens are drafted."""
    draft_model: str | None
    """Hub id of the model that drafts; None where the method needs none."""
    tokens: int
    """Tokens drafted a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Versions that a variant's graphs and image were built for. None is not pinned."""

    sdk: str | None = None
    """Neuron SDK of the image, as `2.31`."""
    driver: str | None = None
    """Neuron driver of the node, as `2.29`."""
    ami: str | None = None
    """EKS AMI release of the node, as `v20260720`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to serve a model: its instance, parallelism, types, graphs and limits."""

    name: str
    """Names the variant in labels, metrics and Deployments; unique in the fleet."""
    instance: InstanceType
    """Instance type of the hardware catalog."""
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    """How the instance is bought."""
    zones: tuple[str, ...] = ()
    """Zones in which replicas may run; empty means any."""
    reservation: Reservation | None = None
    """Capacity block or reservation that replicas are launched into."""
    generation: int | None = None
    """Backend generation of vLLM-Neuron, by default the chip's newest; None on a GPU."""
    image: str | None = None
    """Serving image; None takes the generation's own."""
    pins: Pins = field(default_factory=Pins)
    """Versions checked against each other and the node before a pod is created."""
    tensor_parallel: int = 1
    """Logical NeuronCores, or GPUs, that one replica spans."""
    logical_core_size: int = 1
    """Physical NeuronCores to a logical one (LNC); the chip's own by default."""
    weight_dtype: str = "bfloat16"
    """Type that weights are held in."""
    compute_dtype: str = "bfloat16"
    """Type that the graphs compute in."""
    kv_cache: KvCache = field(default_factory=KvCache)
    """KV cache settings; they are baked into the graphs."""
    prefill_buckets: tuple[int, ...] = ()
    """Compiled prompt lengths; empty takes powers of two from 128 to max_model_len."""
    decode_buckets: tuple[int, ...] = ()
    """Compiled sequence lengths of decode; empty takes the server's own."""
    speculation: Speculation | None = None
    """Speculative decoding; off where absent."""
    max_model_len: int
    """Longest sequence served, prompt and answer, tokens."""
    max_num_seqs: int
    """Sequences that the graphs decode at once; bounds the ceiling."""
    extra_args: tuple[str, ...] = ()
    """Arguments appended to the server's command line."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment of the server."""
    pod_template: dict[str, Any] = field(default_factory=dict)
    """Parts of a pod template, merged over what the controller makes."""

    @property
    def prompt_buckets(self) -> tuple[int, ...]:
        """Prefill buckets as compiled: declared, or NxDI's powers of two."""
        return self.prefill_buckets or default_buckets(self.max_model_len)

    @property
    def node_share(self) -> float:
        """Part of an instance that one replica takes."""
        return self.instance.share(self.tensor_parallel, self.logical_core_size)

    @property
    def devices(self) -> int:
        """Whole devices of one replica: the device plugin hands out no less.

        trn2.48xlarge, LNC 2, TP 8: 16 devices * 8/64 -> 2; TP 2 fills half of one and takes it.
        """
        return max(1, math.ceil(self.node_share * self.instance.accelerators - 1e-9))

    @property
    def replicas_per_node(self) -> int:
        """Replicas that fit on one instance, by whole devices."""
        return max(1, self.instance.accelerators // self.devices)


def default_buckets(max_model_len: int) -> tuple[int, ...]:
    """Powers of two from 128, then max_model_len itself, as NxDI makes them."""
    sizes = []
    size = 128
    while size < max_model_len:
        sizes.append(size)
        size *= 2
    return (*sizes, max_model_len)


def read_variant(fields: Fields) -> Variant:
    """Parse one of `spec.variants`."""
    instance = _read_instance(fields)
    generation = _read_generation(fields, instance)
    lnc = fields.integer("logicalCoreSize", 1, 2, instance.logical_core_size or 1)
    cores = instance.logical_cores(lnc) if instance.is_neuron else instance.accelerators
    buckets = fields.section("buckets")
    max_model_len = fields.integer("maxModelLen", 1, 1_048_576)
    variant = Variant(
        name=fields.text("name", pattern=_NAME, most=63),
        instance=instance,
        capacity_type=CapacityType(fields.choice("capacityType", list(CapacityType), "on-demand")),
        zones=fields.strings("zones"),
        reservation=_read_reservation(fields),
        generation=generation,
        image=fields.optional("image"),
        pins=_read_pins(fields.section("pins")),
        tensor_parallel=fields.integer("tensorParallelDegree", 1, max(1, cores), 1),
        logical_core_size=lnc,
        weight_dtype=fields.choice("weightDtype", list(DTYPE_BYTES), "bfloat16"),
        compute_dtype=fields.choice("computeDtype", list(DTYPE_BYTES), "bfloat16"),
        kv_cache=_read_kv_cache(fields.section("kvCache")),
        prefill_buckets=buckets.integers("prefill", 1, 1_048_576),
        decode_buckets=buckets.integers("decode", 1, 1_048_576),
        speculation=_read_speculation(fields),
        max_model_len=max_model_len,
        max_num_seqs=fields.integer("maxNumSeqs", 1, 4096),
        extra_args=fields.strings("extraArgs"),
        env=fields.pairs("env"),
        pod_template=fields.free("podTemplate"),
    )
    buckets.close()
    if variant.prefill_buckets and variant.prefill_buckets[-1] > max_model_len:
        last = variant.prefill_buckets[-1]
        buckets.problem("prefill", last, f"must not exceed maxModelLen = {max_model_len}")
    fields.close()
    return variant


def _read_instance(fields: Fields) -> InstanceType:
    known = catalog()
    return known[fields.choice("instanceType", list(known))]


def _read_pins(fields: Fields) -> Pins:
    pins = Pins(
        sdk=fields.optional("sdk", most=63),
        driver=fields.optional("driver", most=63),
        ami=fields.optional("ami", most=63),
    )
    fields.close()
    return pins


def _read_generation(fields: Fields, instance: InstanceType) -> int | None:
    """The backend generation; the newest that the chip runs where none is given."""
    if not instance.is_neuron:
        if "backendGeneration" in fields:
            value = fields.integer("backendGeneration", 1, 2)
            fields.problem("backendGeneration", value, f"must be absent on {instance.name}")
        return None
    generation = fields.integer("backendGeneration", 1, 2, max(instance.generations))
    if generation not in instance.generations:
        allowed = " or ".join(map(str, instance.generations))
        fields.problem("backendGeneration", generation, f"must be {allowed} on {instance.name}")
    return generation


def _read_reservation(fields: Fields) -> Reservation | None:
    if "reservation" not in fields:
        fields.section("reservation")
        return None
    section = fields.section("reservation")
    ends = section.moment("endsAt")
    reservation = Reservation(id=section.text("id"), ends_at=ends)
    section.close()
    return reservation


def _read_kv_cache(fields: Fields) -> KvCache:
    blocks = fields.integer("blocks", 1, 10_000_000, 0) or None
    cache = KvCache(
        dtype=fields.choice("dtype", list(DTYPE_BYTES), "bfloat16"),
        blocks=blocks,
        block_size=fields.integer("blockSize", 1, 65_536, 32),
    )
    fields.close()
    return cache


def _read_speculation(fields: Fields) -> Speculation | None:
    if "speculation" not in fields:
        fields.section("speculation")
        return None
    section = fields.section("speculation")
    speculation = Speculation(
        method=section.choice("method", ("draft", "eagle", "eagle3", "dflash", "ngram")),
        draft_model=section.optional("draftModel"),
        tokens=section.integer("tokens", 1, 64),
    )
    section.close()
    return speculation
