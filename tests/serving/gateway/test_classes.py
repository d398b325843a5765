from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.gateway.keys import KeyChanges

if TYPE_CHECKING:
    from tests.serving.gateway.conftest import Rig

    StartRig = Callable[..., Awaitable[Rig]]

pytestmark = pytest.mark.peer

FAST, SLOW = "sk-interactive", "sk-batch"


def line(key: str, traffic: str) -> str:
    return f"{hashlib.sha256(key.encode()).hexdigest()} {traffic} someone\n"


KEYS = line(FAST, "interactive") + line(SLOW, "batch")


async def order_of(gateway: Rig, first: dict[str, str], second: dict[str, str]) -> list[str]:
    """The order in which a full replica takes two requests that came first and second."""
    replica = await gateway.add("llama", "r1", 1)
    key = {"authorization": f"Bearer {FAST}"}
    asks = [asyncio.create_task(gateway.ask({"model": "m1", "events": 10}, headers=key))]
    await gateway.until_in_flight("llama", 1)
    for i, (tag, headers) in enumerate((("first", first), ("second", second)), start=1):
        asks.append(
            asyncio.create_task(gateway.ask({"model": "m1", "tag": tag}, headers=key | headers))
        )
        await gateway.until_queued("llama", i)
    assert {answer.status for answer in await asyncio.gather(*asks)} == {200}
    return replica.order[1:]


BATCH_HEADER = {"x-neuronfleet-class": "batch"}
RAISE_HEADER = {"x-neuronfleet-class": "interactive"}
SLOW_KEY = {"authorization": f"bearer {SLOW}"}


@pytest.mark.parametrize(
    ("keys", "first", "second", "order"),
    [
        (None, BATCH_HEADER, {}, ["second", "first"]),
        (None, {}, {}, ["first", "second"]),
        (None, {}, BATCH_HEADER, ["first", "second"]),
        (KEYS, BATCH_HEADER, {}, ["second", "first"]),
        (KEYS, SLOW_KEY, {}, ["second", "first"]),
        (KEYS, SLOW_KEY | RAISE_HEADER, {}, ["second", "first"]),
        (KEYS, SLOW_KEY, SLOW_KEY | RAISE_HEADER, ["first", "second"]),
    ],
)
async def test_batch_waits_while_interactive_requests_queue(
    rig: StartRig,
    keys: str | None,
    first: dict[str, str],
    second: dict[str, str],
    order: list[str],
) -> None:
    assert await order_of(await rig(keys=keys), first, second) == order


@pytest.mark.parametrize(
    "header",
    [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {FAST}"},
     {"authorization": "Bearer "}, {"authorization": FAST},
     {"authorization": f"Bearer {hashlib.sha256(FAST.encode()).hexdigest()}"}],
)  # fmt: skip
async def test_without_a_known_key_nothing_but_health_answers(
    rig: StartRig, header: dict[str, str]
) -> None:
    gateway = await rig(keys=KEYS)
    await gateway.add("llama", "r1", 1)

    answer = await gateway.ask(headers=header)

    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json["error"] == {
        "message": "The API key is missing or not known.",
        "type": "AuthenticationError",
        "param": None,
        "code": 401,
    }
    assert (await gateway.ask(method="GET", path="/v1/models", headers=header)).status == 401
    assert (await gateway.ask(method="GET", path="/health", headers=header)).status == 200


async def test_a_keys_file_without_keys_lets_nobody_in(rig: StartRig) -> None:
    gateway = await rig(keys="# nobody yet\n")

    assert (await gateway.ask(headers={"authorization": f"Bearer {FAST}"})).status == 401


async def test_a_key_is_neither_passed_on_nor_written_down(rig: StartRig) -> None:
    gateway = await rig(keys=KEYS)
    replica = await gateway.add("llama", "r1", 1)

    answer = await gateway.ask(headers={"authorization": f"Bearer {FAST}"})

    assert answer.status == 200
    assert "authorization" not in replica.headers[0]
    written = [path for path in gateway.directory.iterdir() if path.is_file()]
    assert len(written) > 5
    assert all(FAST not in path.read_text() for path in written)
    assert stat.S_IMODE((gateway.directory / "keys.map").stat().st_mode) == 0o600


async def test_keys_are_read_again_without_a_restart(rig: StartRig) -> None:
    gateway = await rig(keys=KEYS)
    await gateway.add("llama", "r1", 1)
    file = gateway.settings.keys_file
    assert file is not None

    async def status(key: str) -> int:
        return (await gateway.ask(headers={"authorization": f"Bearer {key}"})).status

    assert [await status(key) for key in (FAST, SLOW, "sk-new")] == [200, 200, 401]
    pid = gateway.process.pid
    file.write_text(line("sk-new", "batch") + line(SLOW, "interactive"))

    assert await gateway.process.reload_keys() == KeyChanges(added=1, removed=1, reclassed=1)
    assert [await status(key) for key in (FAST, SLOW, "sk-new")] == [401, 200, 200]
    assert await gateway.process.reload_keys() == KeyChanges(added=0, removed=0, reclassed=0)
    assert gateway.process.pid == pid


async def test_a_keys_file_with_problems_changes_nothing(rig: StartRig) -> None:
    gateway = await rig(keys=KEYS)
    await gateway.add("llama", "r1", 1)
    assert gateway.settings.keys_file is not None
    gateway.settings.keys_file.write_text("nonsense\n")

    with pytest.raises(SpecError, match="line 1"):
        await gateway.process.reload_keys()

    assert (await gateway.ask(headers={"authorization": f"Bearer {FAST}"})).status == 200
