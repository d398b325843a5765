"""Quotas written into a settings file, and nothing else of it changed: comments stay."""

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from neuronfleet.infra.settings import quotas
from neuronfleet.serving.api.documents import read_documents
from neuronfleet.serving.api.problems import SpecError

_SECTION = re.compile(r"quotas\s*:\s*(\{[^}]*\}\s*)?(#.*)?")
_ENTRY = re.compile(r"(?P<lead>\s+)(?P<code>L-[0-9A-F]{8})(?P<mid>\s*:\s*)[0-9]+(?P<rest>.*)")
_INDENT = "  "
_FORM = (
    "quotas = a section in a form of its own, must be `quotas:` at the start of a line with an "
    "entry a line below it"
)


def with_quotas(text: str, found: Mapping[str, int]) -> str:
    """The text with these quotas; those that it gives beside them stay.

    Raises:
        SpecError: the section is written in a way that cannot be kept.
    """
    # A file keeps its line ends, whatever they are.
    ends = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if _SECTION.fullmatch(line)), None)
    if at is None:
        if "quotas" in (yaml.safe_load(text) or {}):
            raise SpecError(_FORM)
        lines += ["", "quotas:"]
        at = len(lines) - 1
    lines = _expanded(lines, at)
    end = _end(lines, at)
    kept, missing = _replaced(lines[at + 1 : end], found)
    last = max((i for i, line in enumerate(kept) if line.strip()), default=-1)
    kept[last + 1 : last + 1] = [_entry(kept, code, found[code]) for code in missing]
    changed = ends.join([*lines[: at + 1], *kept, *lines[end:]]) + ends
    _nothing_else(text, changed, found)
    return changed


def write(path: Path, found: Mapping[str, int]) -> bool:
    """Put quotas into a file, whole or not at all; whether anything changed.

    Raises:
        SpecError: it cannot be read or written.
    """
    if not found:
        return False
    try:
        text = path.read_bytes().decode("utf-8")
        changed = with_quotas(text, found)
        if changed == text:
            return False
        _replace(path.resolve(), changed)
    except OSError as wrong:
        raise SpecError(f"{path}: {wrong.strerror}, must be a writable file") from wrong
    return True


def _replace(path: Path, text: str) -> None:
    """A new file in the place of the old one, with its rights: a reader sees one or the other."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, path.stat().st_mode & 0o7777)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _expanded(lines: list[str], at: int) -> list[str]:
    """`quotas: {L-1: 2}` as a block, so that each entry has its line."""
    inline = _SECTION.fullmatch(lines[at])
    flow = inline.group(1) if inline else None
    if not flow:
        return lines
    given = yaml.safe_load(flow) or {}
    comment = f" {inline.group(2)}" if inline and inline.group(2) else ""
    block = [f"quotas:{comment}", *(f"{_INDENT}{code}: {vcpus}" for code, vcpus in given.items())]
    return [*lines[:at], *block, *lines[at + 1 :]]


def _end(lines: list[str], at: int) -> int:
    """The line after the section: the first that is indented no more, or the blank before it."""
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][:1].isspace()):
        end += 1
    while end > at + 1 and not lines[end - 1].strip():
        end -= 1
    return end


def _replaced(section: list[str], found: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """The section's lines with new numbers, and the codes that it lacks."""
    kept, seen = [], set()
    for line in section:
        entry = _ENTRY.fullmatch(line)
        if entry and entry["code"] in found:
            code = entry["code"]
            seen.add(code)
            line = f"{entry['lead']}{code}{entry['mid']}{found[code]}{entry['rest']}"
        kept.append(line)
    return kept, [code for code in found if code not in seen]


def _entry(section: list[str], code: str, vcpus: int) -> str:
    lead = next((m["lead"] for m in map(_ENTRY.fullmatch, section) if m), _INDENT)
    known = quotas.ALL.get(code)
    return f"{lead}{code}: {vcpus}" + (f" # {known.name}" if known else "")


def _nothing_else(before: str, after: str, found: Mapping[str, int]) -> None:
    """Hold the change against what YAML reads: the quotas found, and all else as it was."""
    old = yaml.safe_load(before) or {}
    wanted = {**old, "quotas": {**(old.get("quotas") or {}), **found}}
    try:
        # It refuses a key given twice, as in quotes and without.
        new = read_documents(after, "quotas")
    except SpecError as wrong:
        raise SpecError(_FORM) from wrong
    if new != [wanted]:
        raise SpecError(_FORM)
