"""Loads of all fleets by one Prometheus query."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from neuronfleet.serving.planner.observation import Origin, Sample

SCRAPED_AT = "fleet:scraped:timestamp"
"""Recorded: when the gateway's queue of a fleet was last scraped, Unix seconds."""
IN_FLIGHT = "haproxy_server_current_sessions"
QUERY = '{__name__=~"fleet:.+"} or ' + IN_FLIGHT + '{proxy=~"[^_].*[.].+"}'
"""Recorded series of all fleets, and what each replica holds by the gateway's backends."""
_TIMEOUT_S = 10.0


class SourceError(Exception):
    """Prometheus did not answer the query."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one query says of one fleet."""

    recorded: dict[str, float] = field(default_factory=dict)
    """Recorded series, by rule name."""
    in_flight: dict[str, float] = field(default_factory=dict)
    """Sequences at each replica, by pod name."""

    def sample(self) -> Sample | None:
        """The reading as a sample; None where the fleet's queue was never scraped."""
        at, queued = self.recorded.get(SCRAPED_AT), self.recorded.get("fleet:queued:sum")
        if at is None or queued is None:
            return None
        return Sample(
            at_s=at,
            origin=Origin.METRICS,
            in_flight=self.in_flight,
            queued=queued,
            refused_per_s=self.recorded.get("fleet:refused:rate", 0.0),
            arrivals_per_s=self.recorded.get("fleet:arrivals:rate"),
            prompt_tokens=self.recorded.get("fleet:prompt_tokens:mean"),
            output_tokens=self.recorded.get("fleet:output_tokens:mean"),
            seconds_per_request=self.recorded.get("fleet:request_seconds:mean"),
        )


async def read(session: aiohttp.ClientSession, url: str) -> Mapping[str, Reading]:
    """Readings of all fleets, by fleet key.

    Raises:
        SourceError: no answer, or one that is no result.
    """
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with session.post(
            f"{url}/api/v1/query", data={"query": QUERY}, timeout=timeout
        ) as answer:
            text = await answer.read()
            if answer.status != 200:
                raise SourceError(f"{url}: {answer.status} {text[:200].decode(errors='replace')}")
            return readings(json.loads(text))
    except (KeyError, TypeError, IndexError) as error:
        raise SourceError(f"{url}: no result of an instant query: {error!r}") from error
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise SourceError(f"{url} does not answer: {type(error).__name__}") from error


def readings(document: Mapping[str, Any]) -> dict[str, Reading]:
    """Group the series of an instant query's answer by fleet."""
    found: dict[str, Reading] = {}
    for series in document["data"]["result"]:
        labels, value = series["metric"], float(series["value"][1])
        if value != value:  # NaN: a mean over nothing is unknown
            continue
        name, server = labels.get("__name__"), labels.get("server")
        if name == IN_FLIGHT and server is not None:
            reading = found.setdefault(labels["proxy"], Reading())
            held = reading.in_flight.get(server, 0.0)
            # A leaving gateway and the new one may both hold streams of a replica.
            reading.in_flight[sys.intern(server)] = held + value
        elif name is not None and "fleet" in labels:
            found.setdefault(labels["fleet"], Reading()).recorded[name] = value
    return found
