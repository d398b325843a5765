"""What Prometheus says of replicas: streams, tokens, and whether an emulator made them."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from neuronfleet.serving.controller import source
from neuronfleet.serving.controller.source import Reading, SourceError

_WINDOW = "120s"
"""As of the recorded rates (monitoring/rules/fleet.yml)."""
TOKENS = f"sum by (fleet, replica) (rate(vllm:generation_tokens_total[{_WINDOW}]))"
EMULATED = "max by (fleet, replica) (neuronfleet_emulator_time_scale)"
"""The emulator alone has this series: emulated seconds a real second."""
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)

Series = Mapping[tuple[str, str], float]
"""Values by fleet key and pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One look at Prometheus; what is missing in a mapping is unknown."""

    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By fleet key."""
    tokens_per_s: Series = field(default_factory=dict)
    """Output tokens a real second."""
    time_scales: Series = field(default_factory=dict)
    """Of replicas that are emulated."""


async def measure(url: str) -> Measured:
    """Ask for all fleets at once.

    Raises:
        SourceError: it did not answer, or not as Prometheus does; the message says what to do.
    """
    try:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            readings, tokens, scales = await asyncio.gather(
                source.read(session, url),
                _by_replica(session, url, TOKENS),
                _by_replica(session, url, EMULATED),
            )
    except (SourceError, KeyError, TypeError) as error:
        raise SourceError(
            f"Prometheus {error}: name one that this machine reaches by --prometheus, as after "
            "`kubectl port-forward -n monitoring svc/prometheus-operated 9090`"
        ) from error
    return Measured(readings=readings, tokens_per_s=tokens, time_scales=scales)


async def _by_replica(session: aiohttp.ClientSession, url: str, query: str) -> Series:
    try:
        async with session.post(f"{url}/api/v1/query", data={"query": query}) as answer:
            text = await answer.text()
            if answer.status != 200:
                raise SourceError(f"{url}: {answer.status} {text[:200]}")
            result = json.loads(text)["data"]["result"]
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise SourceError(f"{url}: {error!r}") from error
    found: dict[tuple[str, str], float] = {}
    for series in result:
        labels, value = series["metric"], float(series["value"][1])
        # Another job's vLLM has no fleet, and a NaN is no rate.
        if "fleet" in labels and "replica" in labels and value == value:
            found[labels["fleet"], labels["replica"]] = value
    return found
