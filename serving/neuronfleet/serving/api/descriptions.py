"""What each field of a spec means: the docstrings under the attributes that it is read into."""

import ast
import inspect
import re
from functools import cache
from itertools import pairwise

from neuronfleet.serving.api.canary import Canary
from neuronfleet.serving.api.fleet import Scaling, ServingFleet
from neuronfleet.serving.api.model import Model, ModelSource, SourceKind
from neuronfleet.serving.api.traffic import Objective, Traffic
from neuronfleet.serving.api.variant import KvCache, Pins, Reservation, Speculation, Variant

_HOMES: dict[str, type] = {
    "spec": ServingFleet,
    "spec.model": Model,
    "spec.model.source": ModelSource,
    "spec.variants[]": Variant,
    "spec.variants[].reservation": Reservation,
    "spec.variants[].pins": Pins,
    "spec.variants[].kvCache": KvCache,
    "spec.variants[].speculation": Speculation,
    "spec.scaling": Scaling,
    "spec.objective": Objective,
    "spec.traffic": Traffic,
    "spec.canary": Canary,
}
_RENAMED: dict[str, tuple[type, str]] = {
    **{f"spec.model.source.{kind}": (SourceKind, kind.name) for kind in SourceKind},
    "spec.variants[].instanceType": (Variant, "instance"),
    "spec.variants[].backendGeneration": (Variant, "generation"),
    "spec.variants[].tensorParallelDegree": (Variant, "tensor_parallel"),
    "spec.variants[].buckets.prefill": (Variant, "prefill_buckets"),
    "spec.variants[].buckets.decode": (Variant, "decode_buckets"),
    "spec.drain.timeout": (ServingFleet, "drain_s"),
    "spec.queue.timeout": (ServingFleet, "queue_s"),
    "spec.metrics.maxAge": (ServingFleet, "metrics_max_age_s"),
    "spec.residency.regions": (ServingFleet, "regions"),
    "spec.traffic.open.requestsPerSecond": (Traffic, "requests_per_second"),
    "spec.traffic.closed.concurrency": (Traffic, "concurrency"),
}
_LENGTHS = "in place of a single count: lengths with their shares, which sum to 1."
_TEXTS = {
    "spec": "The fleet as its owner declares it.",
    "spec.model.config": "Path of the model's config.json, beside the file that declares it. In a "
    "cluster there is no such file: the architecture, and so memory, is then unknown.",
    "spec.model.architecture": "Built-in architecture, by name or hub id; by default that of the "
    "source's hub id. Memory is unknown where there is none.",
    "spec.variants[]": "One way to serve the model.",
    "spec.variants[].buckets": "Lengths that graphs are compiled for.",
    "spec.drain": "How a replica leaves.",
    "spec.queue": "How requests wait at the gateway.",
    "spec.metrics": "What the fleet believes of its metrics.",
    "spec.residency": "Where the model may be served.",
    "spec.traffic.open": "Open: requests arrive whatever the fleet does.",
    "spec.traffic.closed": "Closed: each client sends its next request as the last one ends.",
    "spec.traffic.inputLengths": f"Prompt tokens of a request, {_LENGTHS}",
    "spec.traffic.outputLengths": f"Answer tokens of a request, {_LENGTHS}",
    **{
        f"spec.traffic.{side}Lengths[]{field}": text
        for side in ("input", "output")
        for field, text in {
            "": "One length and its share.",
            ".tokens": "Tokens.",
            ".share": "Share of the requests.",
        }.items()
    },
}


def describe(path: str) -> str:
    """The description of the field at `path`.

    Raises:
        KeyError: nothing says what it means.
    """
    if path in _TEXTS:
        return _TEXTS[path]
    if path in _RENAMED:
        return sentence(attribute_docs(_RENAMED[path][0])[_RENAMED[path][1]])
    parent, _, name = path.rpartition(".")
    docs = attribute_docs(_HOMES[parent])
    attribute = re.sub(r"[A-Z]", lambda capital: f"_{capital.group().lower()}", name)
    return sentence(docs[attribute if attribute in docs else f"{attribute}_s"])


@cache
def attribute_docs(owner: type) -> dict[str, str]:
    """Docstrings under the attributes of a class, by attribute."""
    module = ast.parse(inspect.getsource(inspect.getmodule(owner) or owner))
    [body] = [
        node.body
        for node in module.body
        if isinstance(node, ast.ClassDef) and node.name == owner.__name__
    ]
    return {
        _target(before): " ".join(text.split())
        for before, after in pairwise(body)
        if (text := _text(after)) and isinstance(before, ast.AnnAssign | ast.Assign)
    }


def sentence(text: str) -> str:
    """A docstring in the words of a document: fields in camelCase, None is absence."""
    absent = re.sub(r"(?:^|(?<=\. ))None\b", "Absent", text)
    absent = re.sub(r"\bNone\b", "absent", absent)
    return re.sub(r"(?<=[a-z])_([a-z])", lambda part: part.group(1).upper(), absent)


def _target(node: ast.AnnAssign | ast.Assign) -> str:
    return ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def _text(node: ast.stmt) -> str | None:
    """The text of a docstring, None of any other statement."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None
