"""The hardware catalog: what each instance type has, each fact with its source.

A fact that nobody published is None, and is shown as unknown.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources

from neuronfleet.serving.api.problems import SpecError

MODEL_FAMILIES: Mapping[int, tuple[str, ...]] = {
    1: (
        "llama", "llama4", "mllama", "mistral", "mixtral", "pixtral", "dbrx", "qwen2", "qwen2_vl",
        "qwen3", "qwen3_moe", "qwen3_vl", "gemma3", "gpt_oss",
    ),
    2: ("llama", "gpt_oss", "qwen3", "qwen3_vl"),
}  # fmt: skip
"""Model families that each backend generation serves: the model tables of
neuronx-distributed-inference (1) and of vLLM Neuron's recipes and registry (2), SDK 2.32."""

CONTRIBUTED_FAMILIES: Mapping[int, tuple[str, ...]] = {1: ("qwen3_5_moe",), 2: ("qwen3_5_moe",)}
"""Families served by a contributed port only (NxDI contrib; an unmerged vLLM Neuron branch)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One instance type. Totals are over all its accelerators; None is unknown."""

    name: str
    family: str
    """Accelerator: inferentia2, trainium1, trainium2, trainium3, or a GPU's name."""
    accelerators: int
    """Chips or GPUs."""
    cores: int | None
    """Physical NeuronCores; None on GPUs."""
    logical_core_size: int | None
    """Default LNC: physical cores to a logical one."""
    hbm_gib: float | None
    hbm_gb_per_s: float | None
    """Bandwidth to device memory, 1e9 bytes a second."""
    bf16_tflops: float | None
    fp8_tflops: float | None
    vcpus: int | None
    memory_gib: float | None
    network_gbps: float | None
    efa_interfaces: int | None
    link_gb_per_s: float | None
    """NeuronLink a chip."""
    generations: tuple[int, ...]
    """Backend generations of vLLM-Neuron that run on it; empty on GPUs."""
    sources: Mapping[str, str]
    """Source of each known field, by its name."""

    @property
    def is_neuron(self) -> bool:
        """Whether it carries Neuron chips."""
        return bool(self.generations)

    def logical_cores(self, logical_core_size: int) -> int:
        """Logical cores of the whole instance at this LNC."""
        return (self.cores or 0) // logical_core_size

    def share(self, tensor_parallel: int, logical_core_size: int) -> float:
        """Part of the instance's accelerators that one replica takes.

        trn2.48xlarge: 128 cores at LNC 2 are 64 logical ones, so TP 4 takes 1/16.
        """
        if not self.is_neuron:
            return min(1.0, tensor_parallel / self.accelerators)
        return tensor_parallel / max(1, self.logical_cores(logical_core_size))


@cache
def catalog() -> Mapping[str, InstanceType]:
    """Every known instance type by name."""
    text = resources.files(__package__).joinpath("hardware.json").read_text()
    types = (
        InstanceType(**{**row, "generations": tuple(row["generations"])})
        for row in json.loads(text)["types"]
    )
    return {one.name: one for one in types}


def instance_type(name: str) -> InstanceType:
    """One type of the catalog.

    Raises:
        SpecError: it has no such type; names the nearest.
    """
    known = catalog()
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.3)
        hint = f"did you mean {near[0]}?" if near else f"must be one of {', '.join(known)}"
        raise SpecError(f"instanceType = {name}, is not in the hardware catalog; {hint}")
    return known[name]
