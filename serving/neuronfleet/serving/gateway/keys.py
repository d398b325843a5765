"""API keys: a file of hashes, read whole and with every problem of it at once."""

import re
from dataclasses import dataclass
from enum import StrEnum

from neuronfleet.serving.api.problems import Problem, SpecError


class TrafficClass(StrEnum):
    """Who waits for whom: batch waits while interactive requests queue."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKey:
    """One key that may ask."""

    sha256: str
    """Of the key, 64 lower-case hexadecimal digits; the key itself is known to its owner only."""
    traffic: TrafficClass
    """The best class that its requests can have."""
    name: str = ""
    """Whose it is, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChanges:
    """What reading the keys again changed, in names and counts that may be logged."""

    added: int
    removed: int
    reclassed: int


_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def parse_keys(text: str, source: str) -> tuple[ClientKey, ...]:
    """The keys of a file's text; a SpecError names every line that will not do."""
    problems: list[Problem] = []
    keys: dict[str, ClientKey] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split(maxsplit=2)
        if not words:
            continue
        wrong = _problems(f"line {number}", words)
        digest = words[0].lower()
        if digest in keys:
            wrong.append(_hidden(f"line {number}", words[0], "must not repeat an earlier line"))
        problems += wrong
        if not wrong:
            name = words[2].strip() if len(words) > 2 else ""
            keys[digest] = ClientKey(sha256=digest, traffic=TrafficClass(words[1]), name=name)
    if problems:
        raise SpecError.of(source, problems)
    return tuple(keys.values())


def _problems(path: str, words: list[str]) -> list[Problem]:
    problems = []
    if not _SHA256.fullmatch(words[0]):
        problems.append(_hidden(path, words[0], "must be the 64 hexadecimal digits of a SHA-256"))
    allowed = f"must be {' or '.join(TrafficClass)}"
    if len(words) < 2:
        problems.append(Problem(path=f"{path}, class", value="nothing", allowed=allowed))
    elif words[1] not in tuple(TrafficClass):
        # Two keys on one line would stand here: show no long word.
        shown = words[1] if len(words[1]) <= 12 else f"({len(words[1])} characters)"
        problems.append(Problem(path=f"{path}, class", value=shown, allowed=allowed))
    return problems


def _hidden(path: str, word: str, allowed: str) -> Problem:
    # The likeliest mistake is the key itself in the place of its hash, and errors are logged.
    return Problem(path=f"{path}, sha256", value=f"({len(word)} characters)", allowed=allowed)


def keys_map(keys: tuple[ClientKey, ...]) -> str:
    """The map file in which HAProxy looks up the hash of a key."""
    return "".join(f"{key.sha256} {key.traffic}\n" for key in keys)
