"""Clients of emulated replicas, in this loop and as processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from neuronfleet.serving.emulator.serve import Replica, ReplicaSettings, to_json


class Caller:
    """A client of one replica in this loop."""

    def __init__(self, session: aiohttp.ClientSession, replica: Replica) -> None:
        self._session = session
        self._replica = replica

    @property
    def url(self) -> str:
        """The API's address."""
        return f"http://127.0.0.1:{self._replica.port}"

    async def get(self, path: str, *, accept: str = "*/*", state: bool = False) -> tuple[int, str]:
        """Status and text of a GET, at the API or the state port."""
        port = self._replica.state_port if state else self._replica.port
        url = f"http://127.0.0.1:{port}{path}"
        async with self._session.get(url, headers={"Accept": accept}) as reply:
            return reply.status, await reply.text()

    async def complete(self, **more: object) -> dict[str, Any]:
        """A completion's JSON, refused or not."""
        async with self._session.post(f"{self.url}/v1/completions", json=asked(**more)) as reply:
            found: dict[str, Any] = await reply.json()
            return found

    async def stream(self, **more: object) -> list[dict[str, Any]]:
        """The events of a streamed completion."""
        body = asked(**more) | {"stream": True}
        async with self._session.post(f"{self.url}/v1/completions", json=body) as reply:
            assert reply.status == 200
            text = await reply.text()
        events = [part.removeprefix("data: ") for part in text.split("\n\n") if part]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]

    async def begin(self, **more: object) -> aiohttp.ClientResponse:
        """A stream whose headers are in; the caller closes it."""
        body = asked(**more) | {"stream": True}
        return await self._session.post(f"{self.url}/v1/completions", json=body)

    async def turn(self, mode: str, *, on: bool) -> int:
        """Turn a fault on or off at the state port."""
        url = f"http://127.0.0.1:{self._replica.state_port}/emulator/faults"
        async with self._session.post(url, json={"mode": mode, "on": on}) as reply:
            return reply.status

    async def chat(self, contents: list[str], **more: object) -> dict[str, Any]:
        """A chat answer's JSON."""
        messages = [{"role": "user", "content": content} for content in contents]
        body = {name: value for name, value in asked(**more).items() if name != "prompt"}
        body["messages"] = messages
        async with self._session.post(f"{self.url}/v1/chat/completions", json=body) as reply:
            found: dict[str, Any] = await reply.json()
            return found

    async def reset(self) -> None:
        """Begin a new window of lateness."""
        async with self._session.post(f"{self.url}/emulator/lateness/reset") as reply:
            assert reply.status == 200

    async def metric(self, name: str, **labels: str) -> float | None:
        """One sample of /metrics."""
        _, text = await self.get("/metrics")
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return None


def asked(**more: object) -> dict[str, object]:
    """A small completion request."""
    base = {"prompt": "one two", "max_tokens": 4, "temperature": 0, "ignore_eos": True}
    return base | more


class Process:
    """A replica as `python -m neuronfleet.serving.emulator` starts it."""

    def __init__(self, settings: ReplicaSettings, folder: Path, *arguments: str) -> None:
        file = folder / f"settings-{id(self)}.json"
        file.write_text(to_json(settings))
        command = [sys.executable, "-m", "neuronfleet.serving.emulator", "--settings", str(file)]
        self.child = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.lines: list[str] = []

    def event(self, name: str) -> dict[str, Any]:
        """Wait for an event on stdout."""
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append(line.rstrip())
            if line.startswith("{") and (event := json.loads(line))["event"] == name:
                found: dict[str, Any] = event
                return found
        raise AssertionError(f"no {name}: {self.lines}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this very process."""
        self.child.send_signal(number)

    def end(self) -> None:
        """Kill it and read what is left."""
        self.child.kill()
        self.child.communicate()


Start = Callable[..., Awaitable[Replica]]
Call = Callable[[Replica], Caller]
Spawn = Callable[..., Process]
