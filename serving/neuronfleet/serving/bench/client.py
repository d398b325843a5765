"""The load client: an open load by an absolute schedule, or a closed loop of workers."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import aiohttp

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.api.traffic import Objective
from neuronfleet.serving.bench.exchange import Endpoint, Exchange, Job, open_session
from neuronfleet.serving.bench.prompts import (
    CHAT_EXTRA,
    COMPLETION_EXTRA,
    PromptMaker,
    word_prompts,
)
from neuronfleet.serving.bench.results import Result, Status
from neuronfleet.serving.bench.summary import Summary, summarize
from neuronfleet.serving.emulator.lateness import LatenessLog
from neuronfleet.serving.replica.replay import Arrival

_TICK_S = 0.02
"""Real seconds between looks at the event loop's lateness."""
_PAUSE_S = 1.0
"""Fleet seconds that a worker waits once it was not served and not told how long: a dead
endpoint would else be asked thousands of times a second."""

_Numbered = tuple[int, Arrival]
_Load = Callable[[aiohttp.ClientSession], Awaitable[None]]


class LoadClient:
    """Sends one load, once.

    Args:
        endpoint: as `http://127.0.0.1:8000/v1`.
        model: as requests name it.
        arrivals: what is sent and when, in fleet time; asked for one ahead, so it may be endless.
        objective: what the summary judges by.
        time_scale: fleet seconds to a real second.
        headers: sent with every request.
        on_result: told each result as it is known.
        seed: of the prompts.
        chat: whether requests are chats.
        prompt_maker: for a tokenizer to which a word is not a token.
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        arrivals: Iterable[Arrival],
        *,
        objective: Objective,
        time_scale: float = 1.0,
        headers: Mapping[str, str] | None = None,
        on_result: Callable[[Result], None] | None = None,
        seed: int = 0,
        chat: bool = False,
        prompt_maker: PromptMaker | None = None,
    ) -> None:
        if not time_scale > 0:
            raise SpecError(f"time_scale = {time_scale:g}, must be above 0")
        extra = CHAT_EXTRA if chat else COMPLETION_EXTRA
        self.results: list[Result] = []
        self._endpoint = Endpoint(url=endpoint, model=model, chat=chat)
        self._arrivals: Iterator[_Numbered] = enumerate(arrivals)
        self._objective = objective
        self._scale = time_scale
        self._headers = dict(headers or {})
        self._on_result = on_result
        self._prompt = prompt_maker or word_prompts(seed, extra)
        self._loop_late = LatenessLog()
        self._sending: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._ended = asyncio.Event()
        self._start: float | None = None
        self._window_s: float | None = None
        self._failure: BaseException | None = None

    async def run(self, until_s: float | None = None, *, drain_s: float = 0.0) -> Summary:
        """Send every arrival before `until_s` at its time, however many are under way.

        What still runs at `until_s` has another `drain_s`, then it is broken off as unfinished;
        without `until_s` everything is waited for.
        """
        end_s = None if until_s is None else until_s + drain_s
        return await self._play(partial(self._open_loop, until_s), end_s)

    async def run_closed(
        self, workers: int, *, requests: int | None = None, until_s: float | None = None
    ) -> Summary:
        """Have `workers` each send the next request as the last one ends.

        The lengths are the arrivals', their times count for nothing. Ends after `requests`, at
        `until_s`, or with the arrivals.
        """
        if workers < 1:
            raise SpecError(f"workers = {workers}, must be at least 1")
        load = partial(self._closed_loop, workers, requests, until_s)
        return await self._play(load, until_s)

    async def stop(self) -> None:
        """End the run now: what is under way is broken off and counts as unfinished."""
        self._stop.set()
        if self._start is not None:
            await self._ended.wait()

    @property
    def under_way(self) -> int:
        """Requests sent and not ended."""
        return len(self._sending)

    def now_s(self) -> float:
        """Fleet seconds since the start."""
        return 0.0 if self._start is None else (time.monotonic() - self._start) * self._scale

    def summary(self) -> Summary:
        """Of the results so far; the window reaches to now, or to the end of the run."""
        late_ms = self._loop_late.quantile(0.99)
        return summarize(
            self.results,
            self._objective,
            window_s=self.now_s() if self._window_s is None else self._window_s,
            loop_late_p99_s=None if late_ms is None else late_ms / 1000 * self._scale,
        )

    async def _play(self, load: _Load, end_s: float | None) -> Summary:
        if self._start is not None:
            raise RuntimeError("a LoadClient runs once")
        self._start = time.monotonic()
        async with open_session(self._headers) as session:
            work = asyncio.create_task(self._send_and_wait(load, session, end_s))
            stop = asyncio.create_task(self._stop.wait())
            watch = asyncio.create_task(self._watch())
            try:
                await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._window_s = self.now_s()
                await _cancel(watch, stop, work, *self._sending)
                self._ended.set()
        if self._failure is not None:
            raise self._failure
        if not work.cancelled():
            work.result()
        return self.summary()

    async def _send_and_wait(
        self, load: _Load, session: aiohttp.ClientSession, end_s: float | None
    ) -> None:
        await load(session)
        if self._sending:
            await asyncio.wait(self._sending, timeout=self._left(end_s))

    async def _open_loop(self, until_s: float | None, session: aiohttp.ClientSession) -> None:
        for number, arrival in self._arrivals:
            due_s = arrival.at_ms / 1000
            if until_s is not None and due_s >= until_s:
                return
            # The prompt is made while there is time, not when it is due.
            body = self._body(arrival)
            await self._sleep_until(due_s)
            self._launch(session, Job(number=number, arrival=arrival, due_s=due_s, body=body))

    async def _closed_loop(
        self,
        workers: int,
        requests: int | None,
        until_s: float | None,
        session: aiohttp.ClientSession,
    ) -> None:
        jobs = itertools.islice(self._arrivals, requests)
        crew = [asyncio.create_task(self._worker(session, jobs)) for _ in range(workers)]
        try:
            done, _ = await asyncio.wait(crew, timeout=self._left(until_s))
            for worker in done:
                worker.result()
        finally:
            await _cancel(*crew)

    async def _worker(self, session: aiohttp.ClientSession, jobs: Iterator[_Numbered]) -> None:
        for number, arrival in jobs:
            body = self._body(arrival)
            job = Job(number=number, arrival=arrival, due_s=self.now_s(), body=body)
            exchange, task = self._launch(session, job)
            await asyncio.wait({task})
            if exchange.status is not Status.OK:
                await asyncio.sleep(exchange.retry_after_s or _PAUSE_S / self._scale)

    def _body(self, arrival: Arrival) -> bytes:
        return self._endpoint.body(self._prompt(arrival.prompt_tokens), arrival.output_tokens)

    def _launch(
        self, session: aiohttp.ClientSession, job: Job
    ) -> tuple[Exchange, asyncio.Task[None]]:
        exchange = Exchange(job)
        task = asyncio.create_task(exchange.perform(session, self._endpoint.path))
        self._sending.add(task)
        # Not within the task: one that is cancelled before its first step has a result too.
        task.add_done_callback(partial(self._note, exchange))
        return exchange, task

    def _note(self, exchange: Exchange, task: asyncio.Task[None]) -> None:
        """Keep a result; what is raised on the way ends the run."""
        self._sending.discard(task)
        try:
            result = exchange.result(self._fleet_s)
            self.results.append(result)
            if not task.cancelled():
                task.result()
            if self._on_result is not None:
                self._on_result(result)
        except Exception as error:
            self._failure = error
            self._stop.set()

    def _fleet_s(self, at: float) -> float:
        return (at - (self._start or 0.0)) * self._scale

    def _left(self, end_s: float | None) -> float | None:
        """Real seconds until `end_s`."""
        return None if end_s is None else max(0.0, (end_s - self.now_s()) / self._scale)

    async def _sleep_until(self, due_s: float) -> None:
        # At least one turn of the loop, so that a late client still starts what it sent.
        await asyncio.sleep(0)
        # uvloop rounds to milliseconds and may wake too early.
        while left := self._left(due_s):  # noqa: ASYNC110 - time is no event
            await asyncio.sleep(left)

    async def _watch(self) -> None:
        """Measure how late timers run."""
        while True:
            due = time.monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            self._loop_late.record(max(0.0, time.monotonic() - due) * 1000)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    """End tasks and wait until they have."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
