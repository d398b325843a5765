"""The emulator is put to the cases that real vLLM passes."""

import pytest

from tests import contract_cases


@pytest.mark.parametrize("case", contract_cases.CASES, ids=lambda case: case.__name__)
def test_the_emulator_keeps_the_contract(case: object, emulator_url: str) -> None:
    assert callable(case)
    case(contract_cases.server_at(emulator_url))
