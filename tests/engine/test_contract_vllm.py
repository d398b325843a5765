"""Real vLLM is put to the same cases, so that they say what vLLM does and not what we think."""

import pytest

from tests import contract_cases


@pytest.mark.engine
@pytest.mark.parametrize("case", contract_cases.CASES, ids=lambda case: case.__name__)
def test_vllm_keeps_the_contract(case: object, vllm_url: str) -> None:
    assert callable(case)
    case(contract_cases.server_at(vllm_url))
