"""Rules about where files may live, and how large they may grow."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AREAS = ("infra", "kernels", "monitoring", "serving")


def sources() -> list[Path]:
    return [path for area in AREAS for path in (ROOT / area).rglob("*.py")]


def function_lengths() -> Iterator[int]:
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or 0) - node.lineno + 1


def test_namespace_folders_have_no_init_module_since_it_would_hide_the_other_areas() -> None:
    assert not list(ROOT.glob("*/neuronfleet/__init__.py"))


def test_area_roots_hold_no_python_files_since_each_would_become_a_global_module() -> None:
    assert not [path for area in AREAS for path in (ROOT / area).glob("*.py")]


@pytest.mark.parametrize("area", AREAS)
def test_every_package_says_that_it_is_typed(area: str) -> None:
    rooms = [path.parent for path in (ROOT / area).glob("neuronfleet/*/__init__.py")]
    rooms += [path.parent for path in (ROOT / area).glob("neuronfleet/*/*/__init__.py")]

    assert not [room for room in rooms if not (room / "py.typed").exists()]


def test_modules_and_functions_stay_small() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in sources()}
    lengths = sorted(function_lengths())

    assert statistics.median(lines.values()) <= 150
    assert max(lines.values()) <= 600
    assert lengths[int(0.9 * len(lengths))] <= 35
