from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neuronfleet.kernels.interpreter import faults, launch, lint, platforms
from neuronfleet.kernels.interpreter import isa as nisa
from neuronfleet.kernels.interpreter import language as nl
from neuronfleet.kernels.interpreter.context import Settings
from neuronfleet.kernels.interpreter.operators import UNARY

SETTINGS = Settings(platform=platforms.TRN2)


def kernel(x: Any) -> Any:
    data, other = nl.load(x), nl.load(x)
    nisa.activation(data, UNARY["exp"], data)
    nisa.reciprocal(other, other)
    result = nl.ndarray(x.shape, "float32", nl.shared_hbm)
    nisa.dma_copy(result, data)
    return result


def test_an_instruction_waits_for_what_it_reads() -> None:
    trace = launch.run(kernel, (np.ones((4, 8), np.float32),), settings=SETTINGS).traces[0]

    assert [i.opcode for i in trace.instructions] == [
        "dma_copy", "dma_copy", "activation", "reciprocal", "dma_copy"
    ]  # fmt: skip
    assert dict(trace.dependencies()) == {0: (), 1: (), 2: (0,), 3: (1,), 4: (2,)}
    assert [i.engine for i in trace.instructions] == ["dma", "dma", "scalar", "vector", "dma"]
    assert trace.instructions[2].reads[0].nbytes == 4 * 8 * 4


def test_a_run_without_numbers_has_the_same_trace() -> None:
    x = np.ones((4, 8), np.float32)
    full = launch.run(kernel, (x,), settings=SETTINGS)
    bare = launch.run(kernel, (x,), settings=replace(SETTINGS, numbers=False))

    assert bare.traces[0].instructions == full.traces[0].instructions
    assert bare.peaks == full.peaks


def test_a_run_without_numbers_still_faults_on_unwritten_memory() -> None:
    def bad() -> None:
        nisa.tensor_copy(nl.ndarray((4, 4), "float32"), nl.ndarray((4, 4), "float32"))

    with pytest.raises(faults.UninitialisedRead):
        launch.run(bad, settings=replace(SETTINGS, numbers=False))


@pytest.mark.parametrize(
    ("rule", "line", "source"),
    [
        ("identity", 3, "@nki.jit\ndef k(x):\n    return x is None"),
        ("keyword-only", 2, "@nki.jit\ndef k(x, *, y=1): pass"),
        ("list-argument", 2, "@nki.jit\ndef k(x, y=[1]): pass"),
        ("list-argument", 2, "@nki.jit\ndef k(x: list[int]): pass"),
        ("variadic", 2, "@nki.jit\ndef k(*x): pass"),
        ("string-buffer", 2, "def f():\n    nl.ndarray((1, 1), t, buffer='psum')"),
        ("class", 1, "class A:\n    x: int"),
        ("class", 1, "class A(NKIObject, B):\n    x: int"),
        ("statement", 2, "def f():\n    try: g()\n    finally: h()"),
        ("dict-key", 1, "d = {1: 2}"),
        ("old-namespace", 1, "import neuronxcc.nki.language as nl"),
    ],
)
def test_what_the_language_lacks_is_found_with_its_line(rule: str, line: int, source: str) -> None:
    found = lint.lint_source(source)

    assert [(f.rule, f.line) for f in found] == [(rule, line)]


def test_a_plain_kernel_has_no_findings() -> None:
    assert lint.lint_kernel(kernel) == ()
