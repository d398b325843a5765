"""The running router: where each fleet's queue is, which models there are, and the certificate."""

import logging
from collections.abc import Mapping
from pathlib import Path

from neuronfleet.serving.gateway.admission import MODELS_MAP
from neuronfleet.serving.gateway.control import ControlSocket
from neuronfleet.serving.gateway.errors import GatewayCommandError, GatewayError
from neuronfleet.serving.gateway.keys import ClientKey
from neuronfleet.serving.gateway.process import HAProxy
from neuronfleet.serving.gateway.router_config import (
    CERTIFICATE_FILE,
    NOWHERE,
    STATES_MAP,
    RouterSettings,
    backend_name,
    router_files,
)

log = logging.getLogger(__name__)

Address = tuple[str, int]


class Router:
    """The router as a child of this process."""

    def __init__(self, settings: RouterSettings, directory: Path) -> None:
        self.control = ControlSocket(directory)
        self._settings = settings
        self._haproxy = HAProxy(self.control, directory)
        self._places: dict[str, int] = {}
        # First freed, first used: a request that still looks for a removed fleet's queue should
        # not find another fleet's.
        self._free = list(range(settings.most_fleets))
        self._models: dict[str, str] = {}
        self._targets: dict[int, Address] = {}

    @property
    def pid(self) -> int | None:
        """The process, while it lives."""
        return self._haproxy.pid

    async def start(self, keys: tuple[ClientKey, ...] = (), certificate: str | None = None) -> None:
        """Start, with `certificate` as one PEM text where TLS is on."""
        texts = router_files(self._settings)
        if certificate is not None:
            texts[CERTIFICATE_FILE] = certificate
        self._models, self._targets = {}, {}
        await self._haproxy.start(texts, keys)

    async def stop(self) -> None:
        """Stop at once."""
        await self._haproxy.stop()

    def finish(self) -> None:
        """Listen no more, and end by itself with the last stream."""
        self._haproxy.finish()

    async def follow(
        self, models: Mapping[str, str], targets: Mapping[str, Address | None]
    ) -> None:
        """Send `models` (to fleets) to the queues of their fleets; None lets requests look on."""
        self._give_places(targets)
        for fleet, place in self._places.items():
            await self._point(place, targets[fleet] or NOWHERE)
        wanted = {
            model: backend_name(self._places[fleet])
            for model, fleet in models.items()
            if fleet in self._places
        }
        if wanted != self._models:
            await self.control.set_entries(MODELS_MAP, wanted)
            self._models = wanted

    async def leave(self) -> None:
        """Answer /health with 503: load balancers take this pod out."""
        await self.control.set_entries(STATES_MAP, {"leaving": "1"})

    async def set_certificate(self, pem: str) -> None:
        """Use another certificate for new connections."""
        # An empty line ends a payload, so none may be inside.
        text = "\n".join(line for line in pem.splitlines() if line.strip())
        answer = await self.control.ask(f"set ssl cert {CERTIFICATE_FILE} <<\n{text}\n")
        if "transaction" not in answer.lower():
            raise GatewayCommandError(f"set ssl cert {CERTIFICATE_FILE}", answer)
        answer = await self.control.ask(f"commit ssl cert {CERTIFICATE_FILE}")
        if "Success" not in answer:
            await self.control.ask(f"abort ssl cert {CERTIFICATE_FILE}")
            raise GatewayCommandError(f"commit ssl cert {CERTIFICATE_FILE}", answer)

    async def connections(self) -> int:
        """Streams and client connections that it holds now."""
        for line in (await self.control.ask("show info")).splitlines():
            if line.startswith("CurrConns:"):
                return int(line.split()[1])
        raise GatewayError("the router does not say how many connections it has")

    def _give_places(self, targets: Mapping[str, Address | None]) -> None:
        for fleet in [fleet for fleet in self._places if fleet not in targets]:
            self._free.append(self._places.pop(fleet))
        for fleet in targets:
            if fleet in self._places:
                continue
            if not self._free:
                log.error("no place for fleet %s: most_fleets = %d", fleet, len(self._places))
                continue
            self._places[fleet] = self._free.pop(0)

    async def _point(self, place: int, target: Address) -> None:
        if self._targets.get(place, NOWHERE) == target:
            return
        host, port = target
        server = f"{backend_name(place)}/queue"
        answer = await self.control.ask(f"set server {server} addr {host} port {port}")
        if "changed" not in answer and "no need" not in answer:
            raise GatewayCommandError(f"set server {server} addr {host} port {port}", answer)
        self._targets[place] = target
