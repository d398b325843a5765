"""What crosses the fields of a spec, as CEL rules that an API server holds at admission.

Each says of a mistake what the parser says. An API server bounds what a rule may cost before it
knows any object: hence lists of types in place of maps, and no number made into text.
"""

from collections.abc import Callable
from typing import Any

from neuronfleet.serving.api.hardware import InstanceType, catalog
from neuronfleet.serving.api.model import SourceKind

Rule = dict[str, Any]


def rules() -> dict[str, list[Rule]]:
    """Rules by the path of the mapping, list or value that they hold for."""
    return {
        "spec": [
            _rule(
                "!has(self.replicas) || !has(self.scaling)",
                message="must not be given beside scaling",
                at=".replicas",
            )
        ],
        "spec.model": [
            _rule(
                "!has(self.config) || !has(self.architecture)",
                message="must not be given beside architecture",
                at=".config",
            )
        ],
        "spec.model.name": [
            _rule(
                "self == oldSelf",
                says="'must stay ' + oldSelf + ', since the gateway routes by it'",
            )
        ],
        "spec.model.source": [_one_of(*SourceKind)],
        "spec.variants[]": [_generation(), _tensor_parallel(), _prefill()],
        "spec.scaling": [
            _rule(
                "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
                message="must be in [0, maxReplicas]",
                at=".minReplicas",
            )
        ],
        "spec.traffic": [
            _one_of("open", "closed"),
            _one_of("inputTokens", "inputLengths"),
            _one_of("outputTokens", "outputLengths"),
        ],
        "spec.traffic.inputLengths": [_shares()],
        "spec.traffic.outputLengths": [_shares()],
    }


def _rule(
    rule: str, *, message: str | None = None, says: str | None = None, at: str | None = None
) -> Rule:
    """A rule with its message, or with the CEL expression `says` that makes one.

    What it refuses is the field `at` of what it holds for.
    """
    given = {"rule": rule, "message": message, "messageExpression": says, "fieldPath": at}
    return {key: value for key, value in given.items() if value is not None}


def _one_of(*names: str) -> Rule:
    count = " + ".join(f"(has(self.{name}) ? 1 : 0)" for name in names)
    return _rule(f"{count} == 1", message=f"must have exactly one of {', '.join(names)}")


def _shares() -> Rule:
    total = "self.map(one, one.share).sum()"
    return _rule(f"{total} >= 0.999999 && {total} <= 1.000001", message="shares must sum to 1")


def _generation() -> Rule:
    """A generation that the chip runs; none on a GPU."""
    known = sorted({one for it in catalog().values() for one in it.generations})
    runs = [f"(self.backendGeneration == {one} && {_type_in(_running(one))})" for one in known]
    allowed = _by_type(lambda it: f"'{' or '.join(map(str, it.generations)) or 'absent'}'")
    return _rule(
        f"!has(self.backendGeneration) || {' || '.join(runs)}",
        says=f"'must be ' + ({allowed}) + ' on ' + self.instanceType",
        at=".backendGeneration",
    )


def _running(generation: int) -> list[str]:
    return [name for name, it in catalog().items() if generation in it.generations]


def _tensor_parallel() -> Rule:
    """No more logical cores, or GPUs, than the instance has."""
    limit = _by_core_size(str)
    shown = _by_core_size(lambda cores: f"'{cores}'")
    return _rule(
        f"!has(self.tensorParallelDegree) || self.tensorParallelDegree <= ({limit})",
        says=f"'must be in [1, ' + ({shown}) + ']'",
        at=".tensorParallelDegree",
    )


def _by_core_size(literal: Callable[[int], str]) -> str:
    """A CEL expression that is `literal` of the logical cores of a variant's instance."""
    own = _by_type(lambda it: literal(_cores(it, None)))
    one = _by_type(lambda it: literal(_cores(it, 1)))
    two = _by_type(lambda it: literal(_cores(it, 2)))
    return f"!has(self.logicalCoreSize) ? ({own}) : self.logicalCoreSize == 1 ? ({one}) : ({two})"


def _cores(it: InstanceType, size: int | None) -> int:
    """Logical cores at a logical core size, the chip's own where None; GPUs of a GPU type."""
    if not it.is_neuron:
        return it.accelerators
    return max(1, it.logical_cores(size or it.logical_core_size or 1))


def _prefill() -> Rule:
    return _rule(
        "!has(self.buckets) || !has(self.buckets.prefill) || "
        "self.buckets.prefill.all(one, one <= self.maxModelLen)",
        message="must not exceed maxModelLen",
        at=".buckets.prefill",
    )


def _by_type(literal: Callable[[InstanceType], str]) -> str:
    """A CEL expression that is `literal` of the instance type."""
    types: dict[str, list[str]] = {}
    for name, it in catalog().items():
        types.setdefault(literal(it), []).append(name)
    *cases, last = types
    return "".join(f"{_type_in(types[one])} ? {one} : " for one in cases) + last


def _type_in(names: list[str]) -> str:
    return "self.instanceType in [" + ", ".join(f"'{name}'" for name in names) + "]"
