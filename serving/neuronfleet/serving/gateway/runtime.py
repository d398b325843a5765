"""HAProxy's runtime API: replicas come, drain and go, with no reload and no lost stream."""

import asyncio
import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from neuronfleet.serving.gateway.admission import HOLD, MODELS_MAP
from neuronfleet.serving.gateway.config import REPLICAS_MAP, WAITS_MAP
from neuronfleet.serving.gateway.control import ControlSocket
from neuronfleet.serving.gateway.errors import ReplicaBusyError
from neuronfleet.serving.gateway.settings import NAME, NAME_ALLOWED
from neuronfleet.serving.gateway.stats import FleetStats, parse_stats

MAX_CEILING = 100_000
CUT_SECONDS = 0.05
"""HAProxy ends cut streams in its next round, a millisecond away."""


class GatewayRuntime(ControlSocket):
    """The running gateway, over the socket in its folder."""

    def __init__(
        self,
        fleets: Sequence[str],
        check_seconds: float,
        directory: Path,
        *,
        canaries: bool = True,
        timeout_seconds: float = 5.0,
    ) -> None:
        """`canaries`: whether it has a port at which a replica is asked by name."""
        super().__init__(directory, timeout_seconds)
        self._canaries = canaries
        self._fleets = tuple(fleets)
        self._check_ms = max(1, round(check_seconds * 1000))

    async def add_replica(
        self, fleet: str, replica: str, host: str, port: int, ceiling: int
    ) -> None:
        """Give `replica` to its fleet: the next of the queue goes to it at once.

        It has to be ready by its own account first: probe it directly, since a canary reaches a
        replica through the gateway only from here on.
        """
        server = self._server(fleet, replica)
        address = _address(host, port)
        _check_ceiling(ceiling)
        # A replica that refuses connections has the fewest, so leastconn would give it every retry
        # until its health check has failed: the first refusal takes it out.
        observe = "observe layer4 error-limit 1 on-error mark-down"
        check = f"check inter {self._check_ms}ms fall 3 rise 2 {observe}"
        await self.act(
            f"add server {server} {address} maxconn {ceiling} {check}", "New server registered."
        )
        await self.act(f"enable health {server}")
        # Not from maintenance to ready: HAProxy 2.6 then hands the new server its fill of the queue
        # without counting it, so that what arrives next fills it once more. Leaving drain hands
        # it nothing, and setting maxconn does so and counts.
        await self.act(f"set server {server} state drain")
        await self.act(f"set server {server} state ready")
        await self.act(f"set maxconn server {server} {ceiling}")
        if self._canaries:
            await self.act(f"add map {REPLICAS_MAP} {server} {fleet}")

    async def drain_replica(self, fleet: str, replica: str) -> None:
        """Send nothing new to `replica`; its streams go on, and canaries still reach it."""
        await self.act(f"set server {self._server(fleet, replica)} state drain")

    async def undrain_replica(self, fleet: str, replica: str, ceiling: int | None = None) -> None:
        """Send to `replica` again, beginning with what waits in the queue."""
        server = self._server(fleet, replica)
        if ceiling is not None:
            # Before it takes anything: the ceiling from before the drain may be too high now. And
            # by way of drain, should it have been left in maintenance (see `add_replica`).
            await self.act(f"set server {server} state drain")
            await self.set_ceiling(fleet, replica, ceiling)
        await self.act(f"set server {server} state ready")
        # Leaving drain does not by itself look into the queue; setting maxconn does.
        for known in (await self.stats())[fleet].replicas:
            if known.name == replica:
                await self.act(f"set maxconn server {server} {known.ceiling}")

    async def set_ceiling(self, fleet: str, replica: str, ceiling: int) -> None:
        """Change a ceiling; a lower one cuts nothing and holds as soon as streams have ended."""
        _check_ceiling(ceiling)
        await self.act(f"set maxconn server {self._server(fleet, replica)} {ceiling}")

    async def remove_replica(self, fleet: str, replica: str, *, cut_streams: bool = False) -> None:
        """Forget `replica`. With streams left: ReplicaBusyError, or cut them (it is dead)."""
        server = self._server(fleet, replica)
        await self._forget_canaries(server)
        if cut_streams:
            await self.act(f"set server {server} state maint")
            await self.act(f"shutdown sessions server {server}")
            await asyncio.sleep(CUT_SECONDS)
        if await self._has_streams(fleet, replica):
            raise ReplicaBusyError(f"{server} still has streams: drain it, and try again")
        await self.act(f"set server {server} state maint")
        await self.act(f"del server {server}", "Server deleted.")

    async def set_wait(self, fleet: str, seconds: float) -> None:
        """Have refusals of `fleet` say that a slot is expected in `seconds`, rounded up to >= 1."""
        self._check_fleet(fleet)
        await self.act(f"set map {WAITS_MAP} {fleet} {max(1, math.ceil(seconds))}")

    async def set_models(self, models: Mapping[str, str]) -> None:
        """Make the running map of models to fleets that of `models`."""
        for fleet in models.values():
            self._check_fleet(fleet)
        await self.set_entries(MODELS_MAP, models)

    async def set_hold(self, fleet: str, held: bool) -> None:
        """Have requests wait though no replica has a slot; the hold's one slot has to be taken."""
        # By way of drain, as with replicas: from maintenance to ready it would be filled twice.
        for state in ("drain", "ready") if held else ("maint",):
            await self.act(f"set server {fleet}/{HOLD} state {state}")

    async def stats(self) -> Mapping[str, FleetStats]:
        """Every fleet now, by name."""
        return parse_stats(await self.ask("show stat"), self._fleets)

    async def has_streams(self, fleet: str) -> bool:
        """Whether a client still reads from a replica of `fleet`, were it only the last bytes."""
        sessions = await self.ask("show sess")
        pattern = rf" be={re.escape(fleet)} srv=(?!<none>|{HOLD} )"
        return re.search(pattern, sessions) is not None

    async def _has_streams(self, fleet: str, replica: str) -> bool:
        # A stream that has ended on the replica's side may still be read by its client. HAProxy
        # 2.6 no longer counts it among the server's sessions and so would delete the server, to
        # which the stream still points.
        sessions = await self.ask("show sess")
        pattern = rf" be={re.escape(fleet)} srv={re.escape(replica)} "
        return re.search(pattern, sessions) is not None

    async def _forget_canaries(self, server: str) -> None:
        if self._canaries and server in await self.entries(REPLICAS_MAP):
            await self.act(f"del map {REPLICAS_MAP} {server}")

    def _server(self, fleet: str, replica: str) -> str:
        self._check_fleet(fleet)
        if not NAME.fullmatch(replica):
            raise ValueError(f"replica = {replica!r}, {NAME_ALLOWED}")
        return f"{fleet}/{replica}"

    def _check_fleet(self, fleet: str) -> None:
        if fleet not in self._fleets:
            raise ValueError(f"fleet = {fleet!r}, must be one of {', '.join(self._fleets)}")


def _address(host: str, port: int) -> str:
    address = ipaddress.ip_address(host)
    if not 1 <= port <= 65535:
        raise ValueError(f"port = {port}, must be in [1, 65535]")
    return f"ipv{address.version}@{address}:{port}"


def _check_ceiling(ceiling: int) -> None:
    # 0 would mean no ceiling to HAProxy.
    if not 1 <= ceiling <= MAX_CEILING:
        raise ValueError(f"ceiling = {ceiling}, must be in [1, {MAX_CEILING}]")
