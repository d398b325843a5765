"""The run's own Prometheus: its configuration, its process, and the one query of the loop."""

import json
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from neuronfleet.serving.local.children import Child, free_port
from neuronfleet.serving.local.errors import LocalError

SCRAPE_S = 1.0
"""Real seconds between scrapes: 20 s of fleet time at a scale of 20."""
RATE_WINDOW_S = 10.0
"""Real seconds that rates and means look over."""
LOOKBACK_S = 4.0
"""Older samples are no answer; four lost scrapes."""
_TARGETS = "replicas.json"

# A scraper without UTF-8 escaping gets vllm_x for vllm:x from prometheus_client 0.22 and later.
_COLON = {
    "source_labels": ["__name__"],
    "regex": "vllm_(.+)",
    "target_label": "__name__",
    "replacement": "vllm:$1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One series of an instant query."""

    name: str
    labels: dict[str, str]
    value: float
    at_unix_s: float
    """When the value was scraped or computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A replica to scrape."""

    port: int
    fleet: str
    variant: str
    replica: str


class Prometheus:
    """Prometheus as a child process, on a loopback port."""

    def __init__(self, directory: Path, gateway_metrics_port: int, rules: str) -> None:
        self._directory = directory
        self._gateway_port = gateway_metrics_port
        self._rules = rules
        self.port = free_port()
        self.child: Child | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Write its files and start it."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self.set_targets([])
        (self._directory / "rules.yml").write_text(self._rules)
        (self._directory / "prometheus.yml").write_text(yaml.safe_dump(self._config()))
        self.child = await Child.start(
            [
                "prometheus",
                f"--config.file={self._directory}/prometheus.yml",
                f"--storage.tsdb.path={self._directory}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
                f"--query.lookback-delta={LOOKBACK_S:g}s",
                "--log.level=warn",
            ],
            log=self._directory / "prometheus.log",
        )

    def set_targets(self, targets: list[Target]) -> None:
        """Name the replicas to scrape; Prometheus follows the file."""
        document = [
            {
                "targets": [f"127.0.0.1:{one.port}"],
                "labels": {"fleet": one.fleet, "variant": one.variant, "replica": one.replica},
            }
            for one in targets
        ]
        fresh = self._directory / f"{_TARGETS}.new"
        fresh.write_text(json.dumps(document))
        # Renamed, so that no half-written file is ever read.
        fresh.rename(self._directory / _TARGETS)

    async def query(self, session: aiohttp.ClientSession, expression: str) -> list[Reading]:
        """Every series of an instant query.

        Raises:
            LocalError: Prometheus does not answer, or not with success.
        """
        try:
            async with session.get(
                f"{self.url}/api/v1/query",
                params={"query": expression},
                timeout=aiohttp.ClientTimeout(total=2),
            ) as answer:
                document = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as wrong:
            raise LocalError(f"Prometheus does not answer: {wrong!r}") from wrong
        if document.get("status") != "success":
            raise LocalError(f"Prometheus refuses: {document.get('error')}")
        return [_reading(one) for one in document["data"]["result"]]

    def _config(self) -> dict[str, object]:
        interval = f"{round(SCRAPE_S * 1000)}ms"
        return {
            "global": {
                "scrape_interval": interval,
                "scrape_timeout": interval,
                "evaluation_interval": interval,
            },
            "rule_files": ["rules.yml"],
            "scrape_configs": [
                {
                    "job_name": "gateway",
                    "static_configs": [{"targets": [f"127.0.0.1:{self._gateway_port}"]}],
                },
                {
                    "job_name": "replicas",
                    "file_sd_configs": [{"files": [_TARGETS], "refresh_interval": "2s"}],
                    "metric_relabel_configs": [_COLON],
                },
            ],
        }


def _reading(row: dict[str, object]) -> Reading:
    labels, value = row["metric"], row["value"]
    if not isinstance(labels, dict) or not isinstance(value, list):
        raise LocalError(f"Prometheus answers {row}, must be an instant vector")
    rest = {key: text for key, text in labels.items() if key != "__name__"}
    return Reading(
        name=str(labels.get("__name__", "")),
        labels=rest,
        value=float(value[1]),
        at_unix_s=float(value[0]),
    )
