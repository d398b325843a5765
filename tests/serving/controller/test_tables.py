"""Capacity tables that cannot be made yet."""

import asyncio
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pytest

from neuronfleet.serving.api import fleet as fleets
from neuronfleet.serving.api import prices
from neuronfleet.serving.controller import tables
from neuronfleet.serving.controller.tables import Tables
from neuronfleet.serving.planner.prepare import NO_TABLE
from tests.controller_world import fleet_body


class BrokenPool(Executor):
    """A pool whose worker died."""

    def submit(self, *told: Any, **more: Any) -> "Future[Any]":
        raise BrokenProcessPool("a child process terminated abruptly")


async def _until_asked(made: Tables) -> None:
    await asyncio.gather(*made._asked.values())


async def test_a_worker_that_died_is_replaced_and_the_table_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "_RETRY_S", 0.0)
    monkeypatch.setattr(tables, "table_of", lambda fleet, variant, slots: NO_TABLE)
    pools: list[Executor] = [BrokenPool(), ThreadPoolExecutor(1)]
    made = Tables(prices.newest(), expected_boot_s=30.0, workers=lambda: pools.pop(0))
    fleet = fleets.from_object(fleet_body())

    made.staffing("serving.f", 1, fleet)
    await _until_asked(made)
    assert pools == [], "another pool was started"
    assert made._made == {}

    made.staffing("serving.f", 1, fleet)
    await _until_asked(made)
    assert list(made._made.values()) == [NO_TABLE]
    await made.close()
