"""What a run needs from outside: the documents, the engine, the prices, the load client."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from neuronfleet.serving.api.fleet import Manifest
from neuronfleet.serving.api.prices import PriceCatalog
from neuronfleet.serving.local.engines import Engine
from neuronfleet.serving.local.scenario import LocalRun
from neuronfleet.serving.local.traffic import ClientFactory

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything a run needs from outside."""

    manifest: Manifest
    run: LocalRun
    engine: Engine
    prices: PriceCatalog
    rules: str
    """Recording rules for Prometheus."""
    client: ClientFactory
    port: int = 8000
    page: bool = True
    page_port: int = 8080
    keys_file: Path | None = None
    say: Say = print
