"""Every name of the SDK's stubs, with its parameters and defaults."""

import ast
import inspect
import json
import os
from pathlib import Path
from typing import Any

import pytest

from neuronfleet.kernels.interpreter import collectives, isa, language

STUBS = json.loads((Path(__file__).parent / "stub_signatures.json").read_text())
MODULES: dict[str, Any] = {"isa": isa, "language": language, "collectives": collectives}
ABSENT = {
    "collectives": {
        "all_gather", "all_gather_v", "all_to_all", "all_to_all_v", "collective_permute",
        "collective_permute_implicit", "collective_permute_implicit_current_processing_rank_id",
        "collective_permute_implicit_reduce", "reduce_scatter",
    },
}  # fmt: skip
"""Not interpreted, and not there either: a kernel that needs one fails on its name."""
MORE = {"NkiTensor.reshape": ["more"]}
"""Sizes one by one, which the SDK's own average-pool example uses."""
CASES = [(m, n) for m, names in STUBS.items() for n in names if n not in ABSENT.get(m, set())]


@pytest.mark.parametrize(("module", "name"), CASES)
def test_parameters_are_those_of_the_stubs(module: str, name: str) -> None:
    found: Any = MODULES[module]
    for part in name.split("."):
        found = getattr(found, part)

    have = inspect.signature(found).parameters
    want = STUBS[module][name]
    assert list(have) == [parameter for parameter, _ in want] + MORE.get(name, [])
    for parameter, default in want:
        required = have[parameter].default is inspect.Parameter.empty
        assert required == (default is None), parameter
        if default is not None:
            _same_default(have[parameter].default, default)


def _same_default(have: Any, text: str) -> None:
    try:
        assert have == ast.literal_eval(text)
    except ValueError:  # a name: the last part of a member's, or of an operator's
        assert getattr(have, "name", text).split(".")[-1] == text.split(".")[-1]
    except AssertionError:
        assert text == "..."


@pytest.mark.skipif("NEURON_SDK" not in os.environ, reason="needs a checkout of aws-neuron-sdk")
def test_the_committed_parameters_are_those_of_the_checkout() -> None:
    for module, names in STUBS.items():
        path = Path(os.environ["NEURON_SDK"]) / "nki/api/nki" / module / "__init__.py"
        there = {
            n.name: [a.arg for a in n.args.args]
            for n in ast.parse(path.read_text()).body
            if isinstance(n, ast.FunctionDef)
        }
        here = {k: [p for p, _ in v] for k, v in names.items() if "." not in k}
        assert here == there
