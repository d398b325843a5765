"""`tensor.rearrange`: split, reorder and merge dimensions by name."""

from collections.abc import Mapping
from math import prod
from typing import Any

from neuronfleet.kernels.interpreter import views
from neuronfleet.kernels.interpreter.faults import ShapeFault, kernel_place
from neuronfleet.kernels.interpreter.views import View


def rearranged(
    view: View,
    source: tuple[Any, ...],
    target: tuple[Any, ...],
    sizes: Mapping[str, int],
    *,
    on_chip: bool,
) -> View:
    """The view after `source -> target`, both tuples of names or of groups of names."""
    if len(source) != len(view.shape):
        raise ShapeFault(f"{source} names other dimensions", shape=view.shape, place=kernel_place())
    names: list[str] = []
    for dim in reversed(range(len(source))):
        group = _group(source[dim])
        names = [*group, *names]
        if len(group) > 1:
            view = views.split(view, dim, _sizes(group, sizes, view.shape[dim]))
    order = [name for entry in target for name in _group(entry)]
    if sorted(order) != sorted(names):
        raise ShapeFault(f"{source} and {target} differ in names", place=kernel_place())
    view = views.permute(view, [names.index(name) for name in order], on_chip=on_chip)
    for dim, entry in enumerate(target):
        width = len(_group(entry))
        if width > 1:
            view = views.merge(view, dim, dim + width - 1)
    return view


def _group(entry: str | tuple[str, ...]) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else tuple(entry)


def _sizes(group: tuple[str, ...], sizes: Mapping[str, int], total: int) -> tuple[int, ...]:
    """Sizes of a group's names, the one unknown inferred."""
    known = prod(sizes.get(name, 1) for name in group)
    return tuple(sizes.get(name, total // known) for name in group)
