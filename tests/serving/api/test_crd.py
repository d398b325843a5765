"""The CRD is what the parser asks for: no drift, structural, and of the parser's opinion."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import assume, given, settings

from neuronfleet.serving.api import crd, fleet, schema
from neuronfleet.serving.api.descriptions import describe
from neuronfleet.serving.api.hardware import catalog
from neuronfleet.serving.api.model import SourceKind
from neuronfleet.serving.api.problems import Problem
from neuronfleet.serving.api.recorder import record
from neuronfleet.serving.api.rules import rules
from tests import crd_documents

ROOT = Path(__file__).parents[3]
COMMITTED = ROOT / "serving/crds/servingfleets.neuronfleet.dev.yaml"
API = ROOT / "serving/neuronfleet/serving/api"
READERS = {"text", "optional", "regex", "choice", "integer", "number", "seconds", "moment"}
READERS |= {"strings", "integers", "pairs", "free", "section", "items"}
CROSSING = re.compile(
    r"must not be given beside|must have exactly one of|must sum to 1|must not exceed maxModelLen"
    r"|must be in \[0, maxReplicas|must be a duration in|must be ascending|must be unique"
    r"|must be (1|2|1 or 2|absent) (on|on a) |must be a regular expression|must be a time with zone"
)


def _re2(
    _: object, pattern: str, value: object, __: object
) -> Iterator[jsonschema.ValidationError]:
    """`pattern` as RE2 has it: ASCII classes."""
    if isinstance(value, str) and not re.search(pattern, value, re.ASCII):
        yield jsonschema.ValidationError(f"{value!r} does not match {pattern}")


Validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # its stubs lack types
    jsonschema.Draft202012Validator, {"pattern": _re2}
)


def strict(node: Any) -> Any:
    """The schema as kubectl holds it by default: an unknown field is refused."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: strict(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and "type" in node:
        closed["additionalProperties"] = False
    return closed


SPEC = strict(crd.object_schema()["properties"]["spec"])


def refusals(spec: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Validator(SPEC).iter_errors(spec)]


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, inner in node.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for inner in (node.get("items"), node.get("additionalProperties")):
        if inner is not None:
            yield from nodes(inner, f"{path}[]")


NODES = dict(nodes(crd.object_schema()))


def test_the_committed_crd_is_what_the_builder_makes() -> None:
    assert COMMITTED.read_text() == crd.render(), "run `make crd`"


def test_the_builder_checks_for_drift_by_its_exit_status() -> None:
    run = [sys.executable, str(ROOT / "tools/build_crd.py"), "--check"]
    found = subprocess.run(run, capture_output=True, check=False, timeout=60)

    assert found.returncode == 0, found.stderr


def test_it_renders_the_same_text_every_time() -> None:
    schema.recorded.cache_clear()

    assert crd.render() == crd.render()


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(crd.object_schema())

    assert crd.object_schema()["required"] == ["spec"]


def test_it_is_structural() -> None:
    for path, node in NODES.items():
        assert node.get("type") in {
            "object",
            "array",
            "string",
            "integer",
            "number",
            "boolean",
        }, path
        assert not {"$ref", "oneOf", "anyOf", "allOf", "not", "nullable"} & set(node), path
        assert not ("properties" in node and "additionalProperties" in node), path
        assert ("items" in node) == (node["type"] == "array"), path


def test_every_field_of_spec_and_status_says_what_it_means() -> None:
    inside = {path: node for path, node in NODES.items() if path.startswith((".spec", ".status"))}
    leaves = [path for path in inside if not path.endswith("[]")]

    assert not [path for path in leaves if not inside[path].get("description")]
    assert not [path for path in leaves if re.search(r"_|\bNone\b", inside[path]["description"])]


def test_what_an_api_server_must_bound_is_bounded() -> None:
    spec = {path: node for path, node in NODES.items() if path.startswith(".spec")}
    lists = [path for path, node in spec.items() if node["type"] == "array"]
    texts = [path for path, node in spec.items() if node["type"] == "string"]

    assert not [path for path in lists if "maxItems" not in spec[path]]
    assert not [path for path in texts if not {"maxLength", "enum"} & set(spec[path])]


def test_every_default_is_one_that_its_own_field_takes_and_the_parser_gives() -> None:
    plain = fleet.from_object(crd_documents.document())
    defaults = {path: node["default"] for path, node in NODES.items() if "default" in node}

    for path, default in defaults.items():
        Validator(NODES[path]).validate(default)
    filled = crd_documents.document(
        canary={name: defaults[f".spec.canary.{name}"] for name in ("prompt", "maxTokens")},
        drain={"timeout": defaults[".spec.drain.timeout"]},
        queue={"timeout": defaults[".spec.queue.timeout"]},
        metrics={"maxAge": defaults[".spec.metrics.maxAge"]},
        mode=defaults[".spec.mode"],
    )
    assert fleet.from_object(filled) == plain


def test_what_hangs_on_another_field_has_no_default() -> None:
    for name in ("backendGeneration", "logicalCoreSize"):
        assert "default" not in NODES[f".spec.variants[].{name}"]
    assert "default" not in NODES[".spec.replicas"]
    assert "default" not in NODES[".spec.traffic.inputTokens"]


def literal_readers() -> Iterator[tuple[str, str]]:
    """Every field name that stands in a call of a reader, with the module that it stands in."""
    for path in sorted(API.glob("*.py")):
        module = ast.parse(path.read_text())
        if not any(isinstance(n, ast.ImportFrom) and n.module and n.module.endswith(".fields")
                   for n in module.body) or path.name in {"recorder.py"}:  # fmt: skip
            continue
        skipped = {"_read_head", "_read_budget", "parse", "from_object"}
        for function in module.body:
            if isinstance(function, ast.FunctionDef) and function.name not in skipped:
                yield from ((path.name, name) for name in _names(function))


def _names(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in READERS
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def test_every_name_that_a_reader_is_called_with_is_in_the_schema() -> None:
    read = set(literal_readers())
    known = {path.rpartition(".")[2] for path in NODES if path.startswith(".spec")}

    assert {module for module, _ in read} >= {
        "canary.py",
        "fleet.py",
        "model.py",
        "traffic.py",
        "variant.py",
    }
    assert len(read) > 50
    assert {name for _, name in read} - known == set()
    assert {*SourceKind, "inputTokens", "outputTokens", "inputLengths", "outputLengths"} <= known


def test_a_field_that_the_parser_newly_reads_needs_a_description() -> None:
    with pytest.raises(KeyError):
        describe("spec.model.flavour")


def test_a_branch_behind_a_choice_and_a_field_is_walked() -> None:
    def read(fields: Any) -> None:
        if fields.choice("kind", ("a", "b")) == "b" and "inner" in fields:
            inner = fields.section("inner")
            for item in inner.items("list", most=3):
                item.integer("count", 1, 9)
        fields.integer("size", 1, 5 if fields.integer("factor", 1, 2, 1) == 2 else 4)

    found = record(read, "spec")

    assert found["spec.inner.list[].count"].required
    assert not found["spec.inner"].required
    assert found["spec.size"].schema["maximum"] == 5


def test_a_range_that_hangs_on_two_fields_is_the_widest_of_all() -> None:
    most = max(it.logical_cores(1) for it in catalog().values() if it.is_neuron)

    assert NODES[".spec.variants[].tensorParallelDegree"]["maximum"] == most


def test_two_readings_of_one_field_with_different_types_are_an_error() -> None:
    def read(fields: Any) -> None:
        if "other" in fields:
            fields.integer("size", 1, 5)
        else:
            fields.text("size")

    with pytest.raises(TypeError, match="must be"):
        record(read, "spec")


def test_rules_stand_where_the_parser_reads() -> None:
    placed = {path: node.get("x-kubernetes-validations", []) for path, node in NODES.items()}

    for path, held in rules().items():
        assert all(rule in placed[f".{path}"] for rule in held)


def test_rules_know_every_instance_type() -> None:
    text = str(rules()["spec.variants[]"])

    assert all(f"'{name}'" in text for name in catalog() if name != "g6e.xlarge")


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda p: p.name)
def test_every_example_is_a_valid_object(path: Path) -> None:
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one["kind"] != "LocalRun"]

    assert documents
    assert [refusals(one["spec"]) for one in documents] == [[] for _ in documents]


def test_the_full_fleet_gives_nearly_every_field_and_is_taken_by_both() -> None:
    given_ = crd_documents.full()

    assert crd_documents.problems(given_) == ()
    assert refusals(given_["spec"]) == []


def crosses(problem: Problem) -> bool:
    """Whether a CEL rule, and no range of the schema, holds against it."""
    if problem.path.endswith("tensorParallelDegree"):
        return type(problem.value) is int and 0 < problem.value <= 1152
    if problem.path.endswith(("inputTokens", "outputTokens")) and problem.value == "nothing":
        return True
    return bool(CROSSING.search(problem.allowed))


@settings(max_examples=300, deadline=None)
@given(crd_documents.changed())
def test_the_schema_takes_what_the_parser_takes_and_nothing_else(
    document: crd_documents.Document,
) -> None:
    found = crd_documents.strict_problems(document)
    assume(not found or not all(crosses(one) for one in found))

    assert bool(refusals(document["spec"])) == bool(found), (found, refusals(document["spec"]))


def test_an_unknown_field_is_refused_at_the_door_and_read_over_behind_it() -> None:
    document = crd_documents.document(scalling={})

    assert refusals(document["spec"])
    assert fleet.from_object(document).bounds.max_replicas == 1


def test_a_wrong_name_of_a_fleet_is_refused_by_both() -> None:
    document = crd_documents.document()
    document["metadata"]["name"] = "llama.8b"
    name = NODES[".metadata.name"]

    assert list(Validator(name).iter_errors("llama.8b"))
    assert [one.path for one in crd_documents.problems(document)] == ["metadata.name"]


def test_columns_are_in_the_order_that_an_operator_reads() -> None:
    [version] = crd.definition()["spec"]["versions"]
    names = [column["name"] for column in version["additionalPrinterColumns"]]

    assert " ".join(names) == "Ready Desired Serving Standby Ceiling Load $/h Reason Age"
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.replicas"
    for column in version["additionalPrinterColumns"][1:-1]:
        assert column["jsonPath"] in NODES
        assert NODES[column["jsonPath"]]["type"] == column["type"]
