"""Whether the models of a pool run on its devices."""

from collections.abc import Iterator

from neuronfleet.infra.settings.model import Model, Pool, Settings
from neuronfleet.serving.api import hardware
from neuronfleet.serving.api.hardware import InstanceType
from neuronfleet.serving.api.problems import Problem

OVERHEAD_BYTES = 1255 * 2**20
"""Device memory that is neither weights nor KV, on one chip: telemetry of the Llama 3.1 8B study on
inf2.xlarge, 24,764 MiB used less 15,317 of weights and 8,192 of KV."""
_GIB = 2**30
_SETTABLE = "trainium2"
"""The family whose nodes can be told their LNC."""


def problems(settings: Settings) -> Iterator[Problem]:
    """What does not fit: LNC, parallelism and memory."""
    for index, pool in enumerate(settings.pools):
        chip = hardware.catalog().get(pool.instance_type)
        if chip is None or not chip.is_neuron:
            continue
        path = f"pools[{index}]"
        if pool.logical_core_size is not None and chip.family != _SETTABLE:
            allowed = f"must be left out: {chip.name} has one core size"
            value = pool.logical_core_size
            yield Problem(path=f"{path}.logicalCoreSize", value=value, allowed=allowed)
            continue
        for place, model in enumerate(pool.models):
            yield from _of_model(pool, model, chip, f"{path}.models[{place}]")


def node_core_size(pool: Pool, chip: InstanceType) -> int:
    """Physical cores to a logical one on the pool's nodes."""
    return pool.logical_core_size or chip.logical_core_size or 1


def device_bytes(chip: InstanceType) -> int | None:
    """Memory of one device that weights and KV may take; None where unknown."""
    if chip.hbm_gib is None:
        return None
    return int(chip.hbm_gib * _GIB / chip.accelerators) - OVERHEAD_BYTES


def _of_model(pool: Pool, model: Model, chip: InstanceType, path: str) -> Iterator[Problem]:
    lnc = node_core_size(pool, chip)
    if model.logical_core_size not in (None, lnc):
        allowed = f"must be the node's, {lnc}: graphs of another core size do not load"
        value = model.logical_core_size
        yield Problem(path=f"{path}.logicalCoreSize", value=value, allowed=allowed)
    elif model.tensor_parallel_degree > chip.logical_cores(lnc):
        cores = chip.logical_cores(lnc)
        allowed = f"must be at most {cores}, the logical cores of {chip.name} at LNC {lnc}"
        value = model.tensor_parallel_degree
        yield Problem(path=f"{path}.tensorParallelDegree", value=value, allowed=allowed)
    room = device_bytes(chip)
    if room is not None and model.bytes_per_device > room:
        allowed = (
            f"({model.bytes_per_device / _GIB:.1f} GiB) must be at most {room} "
            f"({room / _GIB:.1f} GiB), one device of {chip.name} less the runtime's share; raise "
            "tensorParallelDegree, lower maxNumSeqs or maxModelLen, or take a larger device"
        )
        yield Problem(path=f"{path}.bytesPerDevice", value=model.bytes_per_device, allowed=allowed)
