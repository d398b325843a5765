"""The gateway's other pods: each is asked again and again what it claims."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from time import monotonic
from typing import Any

import aiohttp

from neuronfleet.serving.controller.gateway.facts import PodFact
from neuronfleet.serving.gateway.claims import Answer, Peer

log = logging.getLogger(__name__)

QUICK_S, CALM_S = 0.1, 0.25
"""Between two questions: while slots change hands, and else."""
_TIMEOUT = aiohttp.ClientTimeout(total=1.0)


class Peers:
    """All other pods of the gateway, as this one knows them."""

    def __init__(
        self, session: aiohttp.ClientSession, agent_port: int, changed: Callable[[], None]
    ) -> None:
        self.quick = False
        self._session = session
        self._port = agent_port
        self._changed = changed
        self._known: dict[str, Peer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def all(self) -> tuple[Peer, ...]:
        """Every pod that the cluster knows."""
        return tuple(self._known.values())

    def follow(self, pods: Iterable[PodFact]) -> None:
        """Ask these pods from now on. One that is gone from the cluster claims nothing."""
        wanted = {pod.pod: pod for pod in pods}
        for name, peer in list(self._known.items()):
            if name not in wanted or wanted[name].host != peer.host:
                self._tasks.pop(name).cancel()
                del self._known[name]
        for name, pod in wanted.items():
            if name not in self._known:
                self._known[name] = Peer(pod=name, host=pod.host, since=monotonic())
                self._tasks[name] = asyncio.create_task(self._ask_on(name))

    async def close(self) -> None:
        """Ask no more."""
        tasks = list(self._tasks.values())
        self._tasks, self._known = {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask_on(self, name: str) -> None:
        tag = ""
        while True:
            peer, asked_at = self._known[name], monotonic()
            try:
                tag, heard = await self._ask(peer, asked_at, tag)
            except aiohttp.ClientConnectorError as error:
                heard, tag = _failed(peer, asked_at, error), ""
            except (aiohttp.ClientError, OSError, ValueError):
                heard, tag = peer, ""
            if name not in self._known:
                return
            news = (heard.answer, heard.dead) != (peer.answer, peer.dead)
            first = peer.heard_at is None and heard.heard_at is not None
            self._known[name] = heard
            if news or first or self.quick:
                self._changed()
            await asyncio.sleep(QUICK_S if self.quick else CALM_S)

    async def _ask(self, peer: Peer, asked_at: float, tag: str) -> tuple[str, Peer]:
        host = f"[{peer.host}]" if ":" in peer.host else peer.host
        headers = {"If-None-Match": tag} if tag else {}
        async with self._session.get(
            f"http://{host}:{self._port}/claims", headers=headers, timeout=_TIMEOUT
        ) as response:
            text = await response.read()
        answer = peer.answer
        if response.status != 304:
            response.raise_for_status()
            answer = parsed(json.loads(text))
        heard = replace(peer, answer=answer, asked_at=asked_at, heard_at=monotonic(), dead=False)
        return response.headers.get("ETag", ""), heard


def _failed(peer: Peer, asked_at: float, error: aiohttp.ClientConnectorError) -> Peer:
    # Refused by its host: there is no process. Any other failure may be the way there.
    if not isinstance(error.os_error, ConnectionRefusedError):
        return peer
    return replace(peer, answer=Answer(), asked_at=asked_at, heard_at=monotonic(), dead=True)


def told(answer: Answer) -> dict[str, Any]:
    """An answer as JSON says it."""
    return {"active": answer.active, "claims": answer.claims, "queues": answer.queues}


def parsed(document: dict[str, Any]) -> Answer:
    """An answer of JSON.

    Raises:
        ValueError: it is none.
    """
    try:
        return Answer(
            active=bool(document["active"]),
            claims={
                str(fleet): {str(replica): int(slots) for replica, slots in claims.items()}
                for fleet, claims in document["claims"].items()
            },
            queues={str(fleet): int(port) for fleet, port in document["queues"].items()},
        )
    except (KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"no claims: {error!r}") from error
