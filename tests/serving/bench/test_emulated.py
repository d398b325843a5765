"""The client against the emulator, over HTTP: two programs that know nothing of each other."""

from collections.abc import AsyncIterator

import pytest

from neuronfleet.serving.bench.client import LoadClient
from neuronfleet.serving.bench.results import Status
from neuronfleet.serving.emulator.server import Replica
from neuronfleet.serving.emulator.settings import ReplicaSettings
from neuronfleet.serving.replica.timing import Basis, Buckets, TimingModel
from tests.serving.bench.fakes import OBJECTIVE, at

SCALE = 20.0


@pytest.fixture
async def url() -> AsyncIterator[str]:
    timing = TimingModel(
        prefill=Buckets(tokens=(256, 2048), ms=(60, 360)),
        prefill_ms_per_token=0,
        host_ms=0,
        decode=Buckets(tokens=(2048,), ms=(50,)),
        decode_ms_per_slot=0,
        first_ms=0,
        basis=Basis.MEASURED,
        source="test",
    )
    settings = ReplicaSettings(
        models=("llama",), timing=timing, slots=4, max_model_len=2048, time_scale=SCALE
    )
    replica = Replica(settings, log=lambda line: None)
    await replica.start()
    await replica.ready()
    yield f"http://127.0.0.1:{replica.port}/v1"
    await replica.stop()


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("prompt_tokens", [16, 500])
async def test_a_prompt_has_the_length_that_was_asked_for_and_the_answer_too(
    url: str, chat: bool, prompt_tokens: int
) -> None:
    arrivals = at(0, 1, 2, prompt_tokens=prompt_tokens, output_tokens=21)
    client = LoadClient(url, "llama", arrivals, objective=OBJECTIVE, time_scale=SCALE, chat=chat)

    await client.run()

    for result in client.results:
        assert (result.status, result.error) == (Status.OK, None)
        assert (result.prompt_tokens, result.tokens) == (prompt_tokens, 21)
        assert result.tpot_s is not None
        # 50 ms a step of the emulated device; a first token that comes late here shortens the rest.
        assert 0.035 < result.tpot_s < 0.1


async def test_a_prompt_of_one_token_is_the_bos_alone(url: str) -> None:
    client = LoadClient(url, "llama", at(0, prompt_tokens=1), objective=OBJECTIVE, time_scale=SCALE)

    await client.run()

    assert [(one.status, one.prompt_tokens) for one in client.results] == [(Status.OK, 1)]


async def test_what_the_server_would_never_take_is_rejected_with_its_reason(url: str) -> None:
    client = LoadClient(
        url, "llama", at(0, prompt_tokens=5000), objective=OBJECTIVE, time_scale=SCALE
    )

    await client.run()

    (result,) = client.results
    assert (result.status, result.http_status) == (Status.REJECTED, 400)
    assert "maximum context length" in str(result.error)
