import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from neuronfleet.serving.bench.client import LoadClient
from neuronfleet.serving.bench.summary import Summary
from tests.serving.bench.fakes import OBJECTIVE, at

STREAMS, RATE, SECONDS = 64, 4000.0, 3.0
SERVER = Path(__file__).with_name("stream_server.py")


@pytest.fixture
def url() -> Iterator[str]:
    command = [sys.executable, str(SERVER), str(STREAMS), str(RATE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.kill()


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run])
def test_four_thousand_chunks_a_second_take_less_than_seven_tenths_of_a_core(
    url: str, run: Callable[[Coroutine[Any, Any, Summary]], Summary]
) -> None:
    tokens = int(RATE * SECONDS / STREAMS)

    async def follow() -> Summary:
        arrivals = at(*[0.0] * STREAMS, prompt_tokens=16, output_tokens=tokens)
        return await LoadClient(url, "llama", arrivals, objective=OBJECTIVE).run()

    cpu, begun = time.process_time(), time.monotonic()
    summary = run(follow())
    cpu, wall = time.process_time() - cpu, time.monotonic() - begun

    chunks = STREAMS * tokens
    share = cpu / chunks * RATE
    print(
        f"{run.__module__}: {chunks} chunks in {wall:.2f} s, {chunks / wall:.0f} a second, "
        f"{cpu:.2f} s of CPU: {share:.0%} of a core at {RATE:.0f} a second"
    )
    assert (summary.ok, summary.output_tokens) == (STREAMS, chunks)
    # By CPU time and not by the clock: other work on the machine must not fail it.
    assert share < 0.7
