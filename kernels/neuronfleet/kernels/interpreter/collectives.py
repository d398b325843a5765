"""`nki.collectives`: work between ranks, in HBM."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from neuronfleet.kernels.interpreter import access
from neuronfleet.kernels.interpreter.context import current
from neuronfleet.kernels.interpreter.dtypes import Array
from neuronfleet.kernels.interpreter.faults import LanguageFault, ShapeFault
from neuronfleet.kernels.interpreter.isa.cores import message_key
from neuronfleet.kernels.interpreter.issue import fault, issue
from neuronfleet.kernels.interpreter.objects import NKIObject
from neuronfleet.kernels.interpreter.operators import Operator
from neuronfleet.kernels.interpreter.tensors import NkiTensor


class ReplicaGroup(NKIObject):
    """Which ranks work together: lists of ranks, each rank in one."""

    def __init__(self, groups: Sequence[Sequence[int]] = ()) -> None:
        self.groups = [list(group) for group in groups]


def _members(group: ReplicaGroup) -> list[int]:
    rank = current().rank
    for members in group.groups:
        if rank in members:
            return members
    raise fault(LanguageFault, f"rank {rank} is in no group", None, f"{group.groups}")


def all_reduce(
    srcs: list[NkiTensor],
    dsts: list[NkiTensor],
    replica_group: ReplicaGroup,
    op: Operator,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Every rank's dst = the reduction of all ranks' src, in float32, in the order of ranks.

    Equal on all ranks to the bit, as each computes the same sum.
    """
    core = current()
    for src, dst in zip(srcs, dsts, strict=True):
        channel = "all_reduce"
        step = issue(
            "all_reduce", "dma", {"dst": dst}, {"src": src}, name,
            {"message": message_key(core, channel), "op": op.name},
        )  # fmt: skip
        members = _members(replica_group)
        if src.size != dst.size:
            raise fault(ShapeFault, f"{dst.size} elements", dst, f"{src.size} elements")
        own = access.floats(src) if core.settings.numbers else None
        others = [r for r in members if r != core.rank]
        for rank in others:
            core.network.send(core.seat, rank * core.cores + core.core, channel, own)
        parts: dict[int, Array | None] = {core.rank: own}
        for rank in others:
            sender = rank * core.cores + core.core
            parts[rank] = core.network.receive(core.seat, sender, channel, step.place)
        step.run(partial(_store, dst, op, parts))


def _store(dst: NkiTensor, op: Operator, parts: dict[int, Array | None]) -> None:
    access.write(dst, _total(op, parts))


def _total(op: Operator, parts: dict[int, Array | None]) -> Array:
    values = [parts[rank] for rank in sorted(parts)]
    total = np.asarray(values[0], np.float32)
    for value in values[1:]:
        total = op.function(total, value)
    return total


def rank_id(name: str | None = None) -> int:
    """This rank."""
    return current().rank
