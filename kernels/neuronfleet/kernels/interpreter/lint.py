"""The language's strict subset of Python, checked on a kernel's source.

Source of the rules: the Neuron SDK's NKI language guide and migration guide (0.3 to 0.6).
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from neuronfleet.kernels.interpreter.faults import LanguageFault

_BUFFERS = ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")
_STATEMENTS: dict[type[ast.AST], str] = {
    ast.Try: "try",
    ast.With: "with",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.Await: "await",
    ast.AsyncFunctionDef: "async def",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Match: "match",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One construct that the compiler refuses."""

    file: str
    line: int
    rule: str
    """Short name of the rule."""
    problem: str
    """What is wrong, and what to write in its place."""


def lint_kernel(function: Callable[..., Any]) -> tuple[Finding, ...]:
    """Findings of one function's source."""
    plain = inspect.unwrap(function)
    lines, start = inspect.getsourcelines(plain)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, start - 1)
    file = inspect.getsourcefile(plain) or "?"
    return _sorted(_findings(tree, file, kernels=[tree.body[0]]))


def lint_source(source: str, file: str = "<kernel>") -> tuple[Finding, ...]:
    """Findings of a module; functions decorated with `jit` are its kernels."""
    tree = ast.parse(source, file)
    kernels = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _is_kernel(n)]
    return _sorted(_findings(tree, file, kernels=kernels))


def require_clean(function: Callable[..., Any]) -> None:
    """Refuse a kernel that leaves the language.

    Raises:
        LanguageFault: For the first finding.
    """
    for finding in lint_kernel(function):
        raise LanguageFault(finding.problem, place=(finding.file, finding.line), limit=finding.rule)


def _sorted(findings: Iterator[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda f: (f.line, f.rule)))


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(d) for d in function.decorator_list)


def _findings(tree: ast.AST, file: str, *, kernels: list[Any]) -> Iterator[Finding]:
    for node, rule, problem in _all(tree, kernels):
        yield Finding(file=file, line=getattr(node, "lineno", 0), rule=rule, problem=problem)


def _all(tree: ast.AST, kernels: list[Any]) -> Iterator[tuple[ast.AST, str, str]]:
    for kernel in kernels:
        yield from _arguments(kernel)
    for node in ast.walk(tree):
        yield from _statement(node)
        if isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Is | ast.IsNot) for op in node.ops
        ):
            yield node, "identity", "`is` compares identities; write == or !="
        elif isinstance(node, ast.keyword):
            yield from _keyword(node)
        elif isinstance(node, ast.ClassDef):
            yield from _class(node)
        elif isinstance(node, ast.Dict):
            yield from _dict(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _import(node)


def _statement(node: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    word = _STATEMENTS.get(type(node))
    if word is not None:
        yield node, "statement", f"`{word}` is no part of the language"


def _arguments(kernel: ast.FunctionDef) -> Iterator[tuple[ast.AST, str, str]]:
    given = kernel.args
    for one in given.kwonlyargs:
        yield one, "keyword-only", f"argument {one.arg} is keyword-only; drop the `*`"
    for star in (given.vararg, given.kwarg):
        if star is not None:
            yield star, "variadic", f"argument {star.arg} takes any number; name each"
    for default in (*given.defaults, *given.kw_defaults):
        if isinstance(default, ast.List):
            yield default, "list-argument", "a list as a kernel's argument; write a tuple"
    for one in (*given.args, *given.kwonlyargs):
        if one.annotation is not None and ast.unparse(one.annotation).lower().startswith("list"):
            yield one, "list-argument", f"argument {one.arg} is a list; take a tuple"


def _keyword(node: ast.keyword) -> Iterator[tuple[ast.AST, str, str]]:
    value = node.value
    if node.arg == "buffer" and isinstance(value, ast.Constant) and isinstance(value.value, str):
        hint = f"nl.{value.value}" if value.value in _BUFFERS else "nl.sbuf"
        yield value, "string-buffer", f"buffer {value.value!r} is a string; write {hint}"


def _class(node: ast.ClassDef) -> Iterator[tuple[ast.AST, str, str]]:
    bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
    if bases not in (["NKIObject"], ["Enum"], ["IntEnum"]):
        yield node, "class", f"class {node.name} must derive from NKIObject and nothing else"


def _dict(node: ast.Dict) -> Iterator[tuple[ast.AST, str, str]]:
    for key in node.keys:
        if isinstance(key, ast.Constant) and not isinstance(key.value, str):
            yield key, "dict-key", f"dictionary key {key.value!r} is no string"


def _import(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[ast.AST, str, str]]:
    names = (
        [alias.name for alias in node.names]
        if isinstance(node, ast.Import)
        else [node.module or ""]
    )
    for name in names:
        if name.split(".")[0] == "neuronxcc":
            yield node, "old-namespace", f"{name} is not nki; import nki, nki.isa, nki.language"
