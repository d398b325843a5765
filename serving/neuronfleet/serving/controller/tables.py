"""Capacity tables of fleets, made beside the loop: they take seconds of simulation each."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor

from neuronfleet.serving.api.fleet import ServingFleet
from neuronfleet.serving.api.prices import PriceCatalog
from neuronfleet.serving.planner.ceiling import ceiling
from neuronfleet.serving.planner.decide import StaffingSpec
from neuronfleet.serving.planner.prepare import NO_TABLE, staffed, table_of
from neuronfleet.serving.planner.staffing import CapacityTable

_log = logging.getLogger(__name__)
_RETRY_S = 60.0
_Key = str


class Tables:
    """Staffing of every fleet; slots alone staff a variant until its table is made."""

    def __init__(
        self, prices: PriceCatalog, *, expected_boot_s: float, workers: Callable[[], Executor]
    ) -> None:
        self._prices, self._expected = prices, expected_boot_s
        self._start_workers, self._workers = workers, workers()
        self._made: dict[_Key, CapacityTable] = {}
        self._asked: dict[_Key, asyncio.Task[None]] = {}
        self._specs: dict[str, tuple[int, int, StaffingSpec]] = {}
        self.on_made: Callable[[], None] = lambda: None

    def staffing(self, key: str, generation: int, fleet: ServingFleet) -> StaffingSpec:
        """What `decide` reads of a fleet, with the tables that are there."""
        known = self._specs.get(key)
        if known is not None and known[:2] == (generation, len(self._made)):
            return known[2]
        spec = StaffingSpec(
            fleet=key,
            bounds=fleet.bounds,
            variants=tuple(
                staffed(
                    fleet,
                    variant,
                    # One sequence is the least that a replica is asked: a variant on which memory
                    # arithmetic finds no room is refused before it is staffed.
                    slots=max(1, ceiling(fleet.model.architecture, variant).slots),
                    boot_s=self._expected,
                    prices=self._prices,
                    table=self._table(fleet, index),
                )
                for index, variant in enumerate(fleet.variants)
            ),
            metrics_max_age_s=fleet.metrics_max_age_s,
        )
        self._specs[key] = (generation, len(self._made), spec)
        return spec

    def forget(self, key: str) -> None:
        """Drop a deleted fleet."""
        self._specs.pop(key, None)

    async def close(self) -> None:
        """End what is being made, and the workers."""
        tasks = list(self._asked.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.shutdown(cancel_futures=True)

    def _table(self, fleet: ServingFleet, index: int) -> CapacityTable:
        variant = fleet.variants[index]
        facts = fleet.model.architecture
        # Everything that the table is made of: fleets alike share one.
        made_of = repr((facts, variant, fleet.objective, fleet.traffic))
        if made_of not in self._made and made_of not in self._asked:
            slots = max(1, ceiling(facts, variant).slots)
            self._asked[made_of] = asyncio.create_task(self._make(made_of, fleet, index, slots))
        return self._made.get(made_of, NO_TABLE)

    async def _make(self, made_of: _Key, fleet: ServingFleet, index: int, slots: int) -> None:
        loop, workers = asyncio.get_running_loop(), self._workers
        try:
            self._made[made_of] = await loop.run_in_executor(
                workers, table_of, fleet, fleet.variants[index], slots
            )
        except Exception as error:
            _log.exception("%s: no capacity table yet, slots alone staff it", fleet.name)
            if isinstance(error, BrokenExecutor) and workers is self._workers:
                self._workers = self._start_workers()
            await asyncio.sleep(_RETRY_S)
            self._specs.clear()
        finally:
            del self._asked[made_of]
        self.on_made()
