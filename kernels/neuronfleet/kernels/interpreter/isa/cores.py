"""Work between the two NeuronCores of a logical core, and registers."""

from collections.abc import Sequence

import numpy as np

from neuronfleet.kernels.interpreter import access, rules
from neuronfleet.kernels.interpreter.context import Core, current
from neuronfleet.kernels.interpreter.faults import BufferFault, LanguageFault, ShapeFault
from neuronfleet.kernels.interpreter.isa.constants import dma_engine, engine
from neuronfleet.kernels.interpreter.issue import NkiInstruction, fault, issue
from neuronfleet.kernels.interpreter.memory import MemoryRegion
from neuronfleet.kernels.interpreter.platforms import nc_version
from neuronfleet.kernels.interpreter.registers import VirtualRegister
from neuronfleet.kernels.interpreter.tensors import NkiTensor

_GPSIMD_DMA_BYTES = {4: 1024, 2: 512, 1: 256}
"""Bytes a partition that GpSimd's own DMA can send, by element size."""


def message_key(core: Core, channel: str) -> str:
    """A name for the next message of a channel, equal on both sides."""
    core.messages[channel] = core.messages.get(channel, 0) + 1
    return f"{channel}#{core.messages[channel]}"


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engine = dma_engine.dma,
    name: str | None = None,
) -> NkiInstruction:
    """Send src to one core of the logical core and receive dst from one."""
    core = current()
    channel = f"sendrecv pipe {int(pipe_id)}"
    queue = "gpsimd" if dma_engine.name == "gpsimd_dma" else "dma"
    details: dict[str, str | int] = {
        "message": message_key(core, channel),
        "peer": int(recv_from_rank),
    }
    step = issue("sendrecv", queue, {"dst": dst}, {"src": src}, name, details)
    rules.since(nc_version.gen3)
    rules.region(src, rules.SBUF)
    rules.region(dst, rules.SBUF)
    rules.same_dtype(src, dst)
    rules.same_layout(src, dst)
    limit = _GPSIMD_DMA_BYTES.get(src.dtype.itemsize, 0)
    if queue == "gpsimd" and src.free_size * src.dtype.itemsize > limit:
        raise fault(ShapeFault, f"{src.free_size} elements", src, f"{limit} bytes a partition")
    for rank in (send_to_rank, recv_from_rank):
        if not 0 <= int(rank) < core.cores:
            raise fault(LanguageFault, f"core {rank}", None, f"0..{core.cores - 1} of this launch")
    base = core.rank * core.cores
    payload = access.read(src).copy() if core.settings.numbers else None
    core.network.send(core.seat, base + int(send_to_rank), channel, payload)
    got = core.network.receive(core.seat, base + int(recv_from_rank), channel, step.place)
    if got is not None and got.size != dst.size:
        raise fault(ShapeFault, f"{got.size} elements arrive", dst, f"{dst.size} elements")
    return step.run(lambda: access.write(dst, got if got is not None else 0))


def core_barrier(
    data: NkiTensor,
    cores: Sequence[int],
    engine: engine = engine.gpsimd,
    name: str | None = None,
) -> NkiInstruction:
    """Wait until every core has come here, and has written `data`."""
    core = current()
    details = {"message": message_key(core, "core_barrier")}
    step = issue("core_barrier", engine.name, {}, {}, name, details)
    if core.cores > 1:
        rules.since(nc_version.gen3)
        if isinstance(data, NkiTensor):
            rules.region(data, MemoryRegion.shared_hbm, MemoryRegion.private_hbm)
        if sorted(int(c) for c in cores) != list(range(core.cores)):
            raise fault(BufferFault, f"cores {tuple(cores)}", None, f"0..{core.cores - 1}")
        base = core.rank * core.cores
        others = [base + n for n in range(core.cores) if n != core.core]
        for seat in others:
            core.network.send(core.seat, seat, "core_barrier", None)
        for seat in others:
            core.network.receive(core.seat, seat, "core_barrier", step.place)
    return step.run(lambda: None)


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A register, with a first value."""
    return VirtualRegister(x)


def _writable(register: VirtualRegister) -> None:
    if register.frozen:
        raise LanguageFault("writes a register that is only passed by value")


def register_move(dst: VirtualRegister, src: int | VirtualRegister) -> None:
    """Dst = src."""
    _writable(dst)
    dst.state = int(src)


def register_load(dst: VirtualRegister, src: NkiTensor) -> None:
    """Dst = the one element of src."""
    _writable(dst)
    step = issue("register_load", "sync", {}, {"src": src})
    if src.size != 1:
        raise fault(ShapeFault, f"{src.size} elements", src, "one element")
    dst.state = access.scalar(src)
    step.run(lambda: None)


def register_store(dst: NkiTensor, src: int | VirtualRegister) -> None:
    """Dst = src, in all elements."""
    step = issue("register_store", "sync", {"dst": dst}, {})
    step.run(lambda: access.write(dst, np.full(dst.shape, int(src))))
