"""One request and its streamed answer, over HTTP."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp

from neuronfleet.serving.bench.results import Result, Status
from neuronfleet.serving.bench.sse import SseScanner
from neuronfleet.serving.replica.replay import Arrival

_SHOWN = 200
"""Characters of a refusal that a result keeps."""
_NO_ROOM = (429, 503)
_KEEPALIVE_S = 4.0
"""Below uvicorn's 5 s: a connection that the server is about to close would fail a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where requests go, and in which of the two forms."""

    url: str
    """As `http://127.0.0.1:8000/v1`."""
    model: str
    chat: bool = False

    @property
    def path(self) -> str:
        """What is posted to."""
        base = self.url.rstrip("/")
        return f"{base}/chat/completions" if self.chat else f"{base}/completions"

    def body(self, prompt: str, tokens: int) -> bytes:
        """A request for exactly `tokens` tokens, counted in every chunk."""
        if self.chat:
            asked: dict[str, object] = {"messages": [{"role": "user", "content": prompt}]}
        else:
            asked = {"prompt": prompt}
        options = {"include_usage": True, "continuous_usage_stats": True}
        wanted = {
            "model": self.model,
            **asked,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": options,
        }
        return json.dumps(wanted).encode()


def open_session(headers: Mapping[str, str]) -> aiohttp.ClientSession:
    """A session that bounds nothing: neither connections nor the time an answer takes."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_S),
        timeout=aiohttp.ClientTimeout(total=None),
        headers={
            "Content-Type": "application/json",
            # Decompressing would hold chunks back.
            "Accept-Encoding": "identity",
            **headers,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request to be sent."""

    number: int
    arrival: Arrival
    due_s: float
    """In fleet seconds since the start of the run."""
    body: bytes


class Exchange:
    """A request under way; times are of `time.monotonic`.

    uvloop's own clock stands still within a turn of the loop, and ticks in milliseconds.
    """

    __slots__ = (
        "_job",
        "_scan",
        "ended_at",
        "error",
        "http_status",
        "retry_after_s",
        "sent_at",
        "status",
    )

    def __init__(self, job: Job) -> None:
        self._job = job
        self._scan = SseScanner()
        self.status = Status.UNFINISHED
        self.sent_at = self.ended_at = time.monotonic()
        self.http_status: int | None = None
        self.retry_after_s: float | None = None
        self.error: str | None = None

    async def perform(self, session: aiohttp.ClientSession, path: str) -> None:
        """Send it and follow the answer to its end; a failure is a status, not an exception.

        Cancelled, it stays unfinished, with what it got so far.
        """
        self.sent_at = time.monotonic()
        try:
            async with session.post(path, data=self._job.body) as response:
                self.http_status = response.status
                if response.status == 200:
                    await self._follow(response)
                    self.status = self._outcome()
                else:
                    self.status = self._refusal(response)
                    self.error = (await response.text(errors="replace"))[:_SHOWN]
        except (aiohttp.ClientError, OSError) as error:
            self.error = f"{type(error).__name__}: {error}"
            self.status = self._broken()
        finally:
            self.ended_at = time.monotonic()
            self._scan.finish(self.ended_at)

    def result(self, fleet_s: Callable[[float], float]) -> Result:
        """What came of it, its times told by `fleet_s`."""
        job, scan = self._job, self._scan
        return Result(
            number=job.number,
            status=self.status,
            scheduled_s=job.due_s,
            sent_s=fleet_s(self.sent_at),
            first_s=None if scan.first_at is None else fleet_s(scan.first_at),
            last_s=None if scan.last_at is None else fleet_s(scan.last_at),
            ended_s=fleet_s(self.ended_at),
            asked_prompt_tokens=job.arrival.prompt_tokens,
            asked_tokens=job.arrival.output_tokens,
            prompt_tokens=scan.prompt_tokens,
            tokens=scan.tokens,
            first_tokens=scan.first_tokens,
            http_status=self.http_status,
            retry_after_s=self.retry_after_s,
            error=self.error,
        )

    async def _follow(self, response: aiohttp.ClientResponse) -> None:
        read, feed, now = response.content.readany, self._scan.feed, time.monotonic
        while data := await read():
            # The time is taken before the data is looked at.
            feed(data, now())

    def _outcome(self) -> Status:
        if self._scan.error:
            self.error = "the server sent an error in the stream"
            return Status.CUT
        if self._scan.first_at is None:
            return Status.EMPTY
        return Status.OK if self._scan.done else Status.CUT

    def _broken(self) -> Status:
        if self.http_status is None:
            return Status.FAILED
        if self.http_status != 200:
            return self.status
        return Status.OK if self._scan.done else Status.CUT

    def _refusal(self, response: aiohttp.ClientResponse) -> Status:
        if response.status in _NO_ROOM:
            self.retry_after_s = _seconds(response.headers.get("Retry-After"))
            return Status.REFUSED
        return Status.REJECTED if 400 <= response.status < 500 else Status.FAILED


def _seconds(header: str | None) -> float | None:
    """Of a Retry-After in seconds; a date, which it may be too, is not read."""
    try:
        return float(header) if header else None
    except ValueError:
        return None
