"""A small emulated fleet for tests: real HAProxy, real Prometheus, replicas as child processes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import yaml

from neuronfleet.cli.load import FleetClient
from neuronfleet.monitoring.rules import RuleSettings, render
from neuronfleet.serving.api import fleet, prices
from neuronfleet.serving.local import prometheus, scenario
from neuronfleet.serving.local.emulated import EmulatedEngine
from neuronfleet.serving.local.run import LocalFleet
from neuronfleet.serving.local.setup import Setup

SCALE = 20.0


def serving_fleet(name: str = "f", **spec: object) -> dict[str, Any]:
    """One fleet of inf2 replicas with 4 slots each."""
    base: dict[str, Any] = {
        "model": {"name": f"model-{name}", "source": {"huggingFace": "a/b"}},
        "variants": [
            {
                "name": "inf2",
                "instanceType": "inf2.xlarge",
                "tensorParallelDegree": 2,
                "maxModelLen": 2048,
                "maxNumSeqs": 4,
            }
        ],
        "objective": {"ttftMs": 3000, "tpotMs": 80},
        "traffic": {
            "open": {"requestsPerSecond": 0.2},
            "inputTokens": 200,
            "outputTokens": 60,
        },
        "scaling": {"minReplicas": 1, "maxReplicas": 3},
        "queue": {"timeout": "10m"},
        "drain": {"timeout": "5m"},
        "metrics": {"maxAge": "2m"},
    }
    base["model"]["architecture"] = "llama-3.1-8b"
    return {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "ServingFleet",
        "metadata": {"name": name},
        "spec": base | spec,
    }


def local_run(**spec: object) -> dict[str, Any]:
    """Boots of 20 fleet seconds, one real one."""
    base: dict[str, Any] = {
        "timeScale": SCALE,
        "streamInterval": 4,
        "canaryEvery": "20s",
        "boot": {"weights": "15s", "graphs": "5s", "warmUp": "0s"},
    }
    return {
        "apiVersion": "neuronfleet.dev/v1alpha1",
        "kind": "LocalRun",
        "metadata": {"name": "test"},
        "spec": base | spec,
    }


def setup(*documents: dict[str, Any], **changes: object) -> Setup:
    """Everything that a run of these documents needs."""
    manifest = fleet.parse(yaml.safe_dump_all(documents), other_kinds=(scenario.KIND,))
    run = scenario.read(manifest)
    rules = RuleSettings(
        interval_s=prometheus.SCRAPE_S,
        window_s=prometheus.RATE_WINDOW_S,
        time_scale=run.time_scale,
    )
    made = Setup(
        manifest=manifest,
        run=run,
        engine=EmulatedEngine(run),
        prices=prices.newest(),
        rules=render(rules),
        client=lambda assignment: FleetClient(assignment, None),
        port=18000,
        page_port=18080,
        page=False,
        say=lambda text: None,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def running(given: Setup) -> AsyncIterator[LocalFleet]:
    """A fleet that is up and being served; its record is `local.record` afterwards."""
    async with LocalFleet(given) as local:
        serving = asyncio.create_task(local.serve())
        try:
            yield local
        finally:
            local.stopping.set()
            await asyncio.wait_for(serving, 10)


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a condition, real seconds at most."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.05)
