"""Fleets as an API server is given them: a full one, and what is made of it by one change."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from neuronfleet.serving.api import fleet
from neuronfleet.serving.api.fields import Fields
from neuronfleet.serving.api.problems import Problem, SpecError
from neuronfleet.serving.api.schema import recorded

Document = dict[str, Any]
_DROP = object()
_SAMPLES = [
    "",
    " ",
    "a",
    "org/name",
    "s3://bucket/key",
    "90s",
    "1h30m",
    "48h",
    "soon",
    "2026-13-01T00:00:00Z",
    "2026-12-01T00:00:00+02:00",
    "Par(is",
    "é",
]


def document(**spec: object) -> Document:
    """A small fleet with these fields of its spec."""
    base: Document = {
        "model": {"name": "m", "source": {"huggingFace": "meta-llama/Llama-3.1-8B-Instruct"}},
        "variants": [variant()],
        "objective": {"ttftMs": 3000, "tpotMs": 80},
        "traffic": {"open": {"requestsPerSecond": 1}, "inputTokens": 512, "outputTokens": 128},
    }
    return {
        "apiVersion": fleet.API_VERSION,
        "kind": "ServingFleet",
        "metadata": {"name": "f"},
        "spec": base | spec,
    }


def variant(**fields: object) -> Document:
    """A small variant with these fields."""
    base = {
        "name": "inf2",
        "instanceType": "inf2.xlarge",
        "tensorParallelDegree": 2,
        "maxModelLen": 2048,
        "maxNumSeqs": 32,
    }
    return base | fields


def full() -> Document:
    """A fleet that gives every field that may be given beside the others."""
    one = variant(
        name="trn2",
        instanceType="trn2.48xlarge",
        capacityType="capacity-block",
        zones=["use2-az3"],
        reservation={"id": "cr-1", "endsAt": "2026-12-01T11:30:00Z"},
        backendGeneration=2,
        image="neuron@sha256:0",
        pins={"sdk": "2.31", "driver": "2.29", "ami": "v20260720"},
        tensorParallelDegree=4,
        logicalCoreSize=2,
        weightDtype="fp8",
        computeDtype="bfloat16",
        kvCache={"dtype": "fp8", "blocks": 2048, "blockSize": 32},
        buckets={"prefill": [512, 1024], "decode": [2048]},
        speculation={"method": "eagle3", "draftModel": "d", "tokens": 4},
        extraArgs=["--seed", "0"],
        env={"A": "1"},
        podTemplate={"spec": {"priorityClassName": "high"}},
    )
    lengths = [{"tokens": 100, "share": 0.25}, {"tokens": 500, "share": 0.75}]
    source = {
        "s3": "s3://bucket/llama",
        "revision": "main",
        "secret": "token",
        "serviceAccount": "reader",
    }
    return document(
        model={"name": "m", "source": source, "architecture": "llama-3.1-8b"},
        variants=[one, variant()],
        objective={"ttftMs": 3000, "tpotMs": 80, "percentile": 90, "attainment": 0.95},
        traffic={"closed": {"concurrency": 4}, "inputLengths": lengths, "outputTokens": 10},
        scaling={
            "minReplicas": 0,
            "maxReplicas": 3,
            "standby": 1,
            "idleAfter": "1h30m",
            "forecast": "none",
        },
        canary={"prompt": "1 + 1 =", "maxTokens": 2, "expect": "^ ?2"},
        drain={"timeout": "10m"},
        queue={"timeout": "60s"},
        metrics={"maxAge": "90s"},
        residency={"regions": ["us-east-2"]},
        mode="Advisory",
    )


def problems(given: Document) -> tuple[Problem, ...]:
    """What the parser says of an object; nothing where it takes it."""
    try:
        fleet.from_object(given)
    except SpecError as wrong:
        return wrong.problems
    return ()


def strict_problems(given: Document) -> tuple[Problem, ...]:
    """What the parser says of a spec that is newly given: unknown fields too."""
    found: list[Problem] = []
    fleet.read_spec("f", Fields(given["spec"], "spec", found), None)
    return tuple(found)


def changed() -> st.SearchStrategy[Document]:
    """The full fleet with up to two of its fields left out, or holding something else."""
    edits = st.tuples(st.sampled_from(sorted(recorded())), st.randoms(use_true_random=False))
    return st.lists(edits, max_size=2).map(_edited)


def _edited(edits: list[Any]) -> Document:
    given = full()
    for path, random in edits:
        schema = recorded()[path].schema
        values = list(_values(schema))
        _set(given, path, random.choice([_DROP, *values]), random.choice)
    return given


def _values(schema: Document) -> Iterator[Any]:
    """Values at and past the ends of what a field may hold, and of other types."""
    duration = (
        schema.get("x-kubernetes-validations", [{}])[0].get("rule", "").startswith("duration")
    )
    kind = schema["type"]
    if not duration:
        yield from [True, 7]
    yield from [*_SAMPLES, [], ["a"], {}, {"a": "b"}, {"a": 1}]
    yield from schema.get("enum", ())
    for end in ("minimum", "maximum"):
        step = 1 if kind == "integer" else 0.015625
        yield from [schema[end] + n * step for n in (-1, 0, 1)] if end in schema else []
    if kind == "string":
        yield from ["x" * schema.get("maxLength", 1), "x" * (schema.get("maxLength", 1) + 1)]
    if kind == "array":
        yield from [[1, 2], [2, 1], [3, 3], ["x" * 1025], ["x"] * (schema["maxItems"] + 1)]
    if kind == "object":
        yield from [{str(n): "x" for n in range(n)} for n in (64, 65)]


def _set(given: Document, path: str, value: Any, pick: Callable[[list[Any]], Any]) -> None:
    """Change what stands at a path of the record; does nothing where its parent is not there."""
    *parents, name = path.replace("[]", ".[]").split(".")
    at: Any = given
    for parent in parents:
        if parent == "[]":
            at = pick(at) if isinstance(at, list) and at else None
        else:
            at = at.get(parent) if isinstance(at, dict) else None
    if not isinstance(at, dict):
        return
    if value is _DROP:
        at.pop(name, None)
    else:
        at[name] = copy.deepcopy(value)
