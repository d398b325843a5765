"""Loads from the gateway's own counters, for while Prometheus does not answer.

They may justify growth and never a shrink (law 4), and know nothing of lengths.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from neuronfleet.serving.planner.observation import Origin, Sample

_QUEUE = "haproxy_backend_current_queue"
_SESSIONS = "haproxy_server_current_sessions"
_REQUESTS = "haproxy_backend_http_requests_total"
_REFUSED = "haproxy_backend_connection_errors_total"
_TIMEOUT = aiohttp.ClientTimeout(total=3)

Addresses = Callable[[], Awaitable[Sequence[str]]]
"""Base URLs of the gateway's pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """One fleet's counters, over all pods of the gateway."""

    queued: float
    requests: float
    refused: float
    in_flight: Mapping[str, float]


class GatewaySource:
    """Samples made of two looks at the counters."""

    def __init__(self, session: aiohttp.ClientSession, addresses: Addresses) -> None:
        self._session, self._addresses = session, addresses
        self._last: tuple[float, Mapping[str, Counters]] | None = None

    async def read(self, now: float) -> Mapping[str, Sample]:
        """Samples by fleet key; empty where no pod of the gateway answers."""
        texts = [await self._text(base) for base in await self._addresses()]
        found = counters([text for text in texts if text is not None])
        before, self._last = self._last, (now, found)
        return {key: _sample(key, one, now, before) for key, one in found.items()}

    async def _text(self, base: str) -> str | None:
        try:
            async with self._session.get(f"{base}/metrics", timeout=_TIMEOUT) as answer:
                return await answer.text() if answer.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None


def counters(texts: Sequence[str]) -> dict[str, Counters]:
    """Counters by fleet key, added up over the pods."""
    sums: dict[tuple[str, str], float] = {}
    held: dict[str, dict[str, float]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            for name, labels, value, *_ in family.samples:
                proxy = labels.get("proxy", "_")
                if proxy.startswith("_"):
                    continue
                if name == _SESSIONS:
                    mine = held.setdefault(proxy, {})
                    mine[labels["server"]] = mine.get(labels["server"], 0.0) + value
                elif name in (_QUEUE, _REQUESTS, _REFUSED):
                    sums[proxy, name] = sums.get((proxy, name), 0.0) + value
    return {
        key: Counters(
            queued=sums[key, _QUEUE],
            requests=sums.get((key, _REQUESTS), 0.0),
            refused=sums.get((key, _REFUSED), 0.0),
            in_flight=held.get(key, {}),
        )
        for key, name in sums
        if name == _QUEUE
    }


def _sample(
    key: str, seen: Counters, now: float, before: tuple[float, Mapping[str, Counters]] | None
) -> Sample:
    """A sample; rates are unknown at the first look and after a gateway's restart."""
    arrivals = refused = None
    last = None if before is None else before[1].get(key)
    if before is not None and last is not None and now > before[0]:
        span = now - before[0]
        if seen.requests >= last.requests and seen.refused >= last.refused:
            arrivals = (seen.requests - last.requests) / span
            refused = (seen.refused - last.refused) / span
    return Sample(
        at_s=now,
        origin=Origin.GATEWAY,
        in_flight=seen.in_flight,
        queued=seen.queued,
        refused_per_s=refused or 0.0,
        arrivals_per_s=arrivals,
    )
