"""Quotas put into a settings file: comments stay, and nothing else changes."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from neuronfleet.infra.commands.rewrite import with_quotas, write
from neuronfleet.serving.api.problems import SpecError

ROOT = Path(__file__).parents[3]
FOUND = {"L-1945791B": 64, "L-B5D1601B": 8}
CODES = st.integers(0, 15).map(lambda number: f"L-0000000{number:X}")


def test_numbers_change_in_their_place_and_new_quotas_come_after_them() -> None:
    text = "a: 1 # one\nquotas: # vCPUs\n    L-1945791B: 32 # Inf\n    L-0000000A: 5\n\nb: 2\n"

    assert with_quotas(text, FOUND) == (
        "a: 1 # one\nquotas: # vCPUs\n    L-1945791B: 64 # Inf\n    L-0000000A: 5\n"
        "    L-B5D1601B: 8 # All Inf Spot Instance Requests\n\nb: 2\n"
    )


def test_a_file_without_quotas_gets_them_at_its_end() -> None:
    changed = with_quotas("a: 1 # one\n# quotas:\n#   L-1945791B: 4\n", {"L-1945791B": 64})

    assert changed.startswith("a: 1 # one\n# quotas:\n#   L-1945791B: 4\n\nquotas:\n")
    assert yaml.safe_load(changed) == {"a": 1, "quotas": {"L-1945791B": 64}}


@pytest.mark.parametrize("form", ["quotas: {}\n", "quotas: {L-0000000A: 5} # old\n", "quotas:\n"])
def test_an_inline_or_empty_section_becomes_one_of_a_line_each(form: str) -> None:
    before = yaml.safe_load(form)["quotas"] or {}

    changed = with_quotas(f"a: 1\n{form}b: 2\n", FOUND)

    assert yaml.safe_load(changed) == {"a": 1, "quotas": {**before, **FOUND}, "b": 2}


@pytest.mark.parametrize(
    "text",
    ['"quotas":\n  L-1945791B: 32\n', "{a: 1, quotas: {}}\n", 'quotas:\n  "L-1945791B": 32\n'],
)
def test_a_section_in_a_form_of_its_own_is_refused_and_not_spoiled(text: str) -> None:
    with pytest.raises(SpecError, match="quotas = a section in a form of its own"):
        with_quotas(text, FOUND)


@given(old=st.dictionaries(CODES, st.integers(0, 9999)), new=st.dictionaries(CODES, st.integers(0)))
def test_whatever_was_there_the_quotas_found_are_there_and_all_else_is_as_it_was(
    old: dict[str, int], new: dict[str, int]
) -> None:
    entries = "".join(f"  {code}: {vcpus} # kept\n" for code, vcpus in old.items())
    text = f"a: 1\nquotas:\n{entries}\n# after\nb: [1, 2]\n"
    if not new:
        return

    changed = with_quotas(text, new)

    assert yaml.safe_load(changed) == {"a": 1, "quotas": {**old, **new}, "b": [1, 2]}
    assert changed.count("# kept") == len(old)
    assert with_quotas(changed, new) == changed


def test_a_file_keeps_its_rights_its_line_ends_and_its_other_lines(tmp_path: Path) -> None:
    file = tmp_path / "infra.yaml"
    file.write_bytes(b"a: 1 # one\r\nquotas:\r\n  L-1945791B: 32\r\n")
    file.chmod(0o640)

    assert write(file, {"L-1945791B": 64})
    assert file.read_bytes() == b"a: 1 # one\r\nquotas:\r\n  L-1945791B: 64\r\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]
    assert not write(file, {"L-1945791B": 64})
    assert not write(file, {})


def test_the_example_keeps_all_its_lines_but_the_numbers() -> None:
    text = (ROOT / "examples/infra/us-east-2.yaml").read_text()

    changed = with_quotas(text, {"L-1945791B": 33})
    different = [
        (a, b) for a, b in zip(text.splitlines(), changed.splitlines(), strict=True) if a != b
    ]

    assert different == [("  L-1945791B: 32 # on-demand Inf", "  L-1945791B: 33 # on-demand Inf")]


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="must be a writable file"):
        write(tmp_path / "nowhere.yaml", FOUND)
