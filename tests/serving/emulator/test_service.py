import json

from neuronfleet.serving.emulator.tokens import chat_prompt, expected_chat_text
from tests.serving.emulator.helpers import Call, Start


async def test_requests_keep_the_id_that_they_came_with(start: Start, call: Call) -> None:
    replica = await start()
    first = await call(replica).complete()
    second = await call(replica).complete()

    assert first["id"].startswith("cmpl-")
    assert first["id"] != second["id"]


async def test_ids_follow_the_seed(start: Start, call: Call) -> None:
    one = await call(await start(seed=7)).complete()
    two = await call(await start(seed=7)).complete()
    three = await call(await start(seed=8)).complete()

    assert one["id"] == two["id"] != three["id"]


async def test_refused_requests_are_counted_and_hold_nothing(start: Start, call: Call) -> None:
    replica = await start()
    reply = await call(replica).complete(max_tokens=0)

    assert reply["error"]["code"] == 400
    assert replica.state()["requests"] == {"answered": 0, "aborted": 0, "refused": 1}
    assert replica.state()["max_held"] == 0


async def test_a_chat_is_answered_with_the_expected_text(start: Start, call: Call) -> None:
    client = call(await start())
    reply = await client.chat(["be brief", "what is a chip"], max_tokens=6)

    text = expected_chat_text(["be brief", "what is a chip"], 6)
    assert reply["choices"][0]["message"]["content"] == text
    tokens = chat_prompt(["be brief", "what is a chip"]).tokens
    assert reply["usage"]["prompt_tokens"] == tokens == 1 + 6 + 8 + 3


async def test_the_state_is_at_both_ports(start: Start, call: Call) -> None:
    replica = await start()
    client = call(replica)
    _, api = await client.get("/emulator/state")
    _, own = await client.get("/emulator/state", state=True)

    assert json.loads(api) == json.loads(own)
    assert json.loads(api)["port"] == replica.port
