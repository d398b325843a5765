"""HAProxy's runtime API: replicas come, drain and go, with no reload and no lost stream."""

import asyncio
import ipaddress
import math
import re
from collections.abc import Mapping
from pathlib import Path

from neuronfleet.serving.gateway.config import KEYS_MAP, REPLICAS_MAP, SOCKET_FILE, WAITS_MAP
from neuronfleet.serving.gateway.errors import (
    GatewayCommandError,
    GatewayError,
    ReplicaBusyError,
)
from neuronfleet.serving.gateway.keys import ClientKey, KeyChanges
from neuronfleet.serving.gateway.settings import NAME, NAME_ALLOWED, GatewaySettings
from neuronfleet.serving.gateway.stats import FleetStats, parse_stats

MAX_CEILING = 100_000
CUT_SECONDS = 0.05
"""HAProxy ends cut streams in its next round, a millisecond away."""


class GatewayRuntime:
    """The running gateway, over the socket in its folder."""

    def __init__(
        self, settings: GatewaySettings, directory: Path, *, timeout_seconds: float = 5.0
    ) -> None:
        self._fleets = tuple(fleet.name for fleet in settings.fleets)
        self._check_ms = max(1, round(settings.check_seconds * 1000))
        self._socket = str(directory / SOCKET_FILE)
        self._timeout_seconds = timeout_seconds

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
        await self._act(
            f"add server {server} {address} maxconn {ceiling} {check}", "New server registered."
        )
        await self._act(f"enable health {server}")
        # Not from maintenance to ready: HAProxy 2.6 then hands the new server its fill of the queue
        # without counting it, so that what arrives next fills it once more. Leaving drain hands
        # it nothing, and setting maxconn does so and counts.
        await self._act(f"set server {server} state drain")
        await self._act(f"set server {server} state ready")
        await self._act(f"set maxconn server {server} {ceiling}")
        await self._act(f"add map {REPLICAS_MAP} {server} {fleet}")

    async def drain_replica(self, fleet: str, replica: str) -> None:
        """Send nothing new to `replica`; its streams go on, and canaries still reach it."""
        await self._act(f"set server {self._server(fleet, replica)} state drain")

    async def undrain_replica(self, fleet: str, replica: str) -> None:
        """Send to `replica` again, beginning with what waits in the queue."""
        server = self._server(fleet, replica)
        await self._act(f"set server {server} state ready")
        # Leaving drain does not by itself look into the queue; setting maxconn does.
        for known in (await self.stats())[fleet].replicas:
            if known.name == replica:
                await self._act(f"set maxconn server {server} {known.ceiling}")

    async def set_ceiling(self, fleet: str, replica: str, ceiling: int) -> None:
        """Change a ceiling; a lower one cuts nothing and holds as soon as streams have ended."""
        _check_ceiling(ceiling)
        await self._act(f"set maxconn server {self._server(fleet, replica)} {ceiling}")

    async def remove_replica(self, fleet: str, replica: str, *, cut_streams: bool = False) -> None:
        """Forget `replica`. With streams left: ReplicaBusyError, or cut them (it is dead)."""
        server = self._server(fleet, replica)
        await self._forget_canaries(server)
        if cut_streams:
            await self._act(f"set server {server} state maint")
            await self._act(f"shutdown sessions server {server}")
            await asyncio.sleep(CUT_SECONDS)
        if await self._has_streams(fleet, replica):
            raise ReplicaBusyError(f"{server} still has streams: drain it, and try again")
        await self._act(f"set server {server} state maint")
        await self._act(f"del server {server}", "Server deleted.")

    async def set_wait(self, fleet: str, seconds: float) -> None:
        """Have refusals of `fleet` say that a slot is expected in `seconds`, rounded up to >= 1."""
        self._check_fleet(fleet)
        await self._act(f"set map {WAITS_MAP} {fleet} {max(1, math.ceil(seconds))}")

    async def set_keys(self, keys: tuple[ClientKey, ...]) -> KeyChanges:
        """Make the running map that of `keys`, additions first."""
        running = _map_entries(await self._ask(f"show map {KEYS_MAP}"))
        wanted = {key.sha256: str(key.traffic) for key in keys}
        added = [k for k in wanted if k not in running]
        reclassed = [k for k in wanted if k in running and running[k] != wanted[k]]
        removed = [k for k in running if k not in wanted]
        for verb, digests in (("add", added), ("set", reclassed)):
            for digest in digests:
                await self._act(f"{verb} map {KEYS_MAP} {digest} {wanted[digest]}")
        for digest in removed:
            await self._act(f"del map {KEYS_MAP} {digest}")
        return KeyChanges(added=len(added), removed=len(removed), reclassed=len(reclassed))

    async def stats(self) -> Mapping[str, FleetStats]:
        """Every fleet now, by name."""
        return parse_stats(await self._ask("show stat"), self._fleets)

    async def pid(self) -> int:
        """The process that answers on the socket."""
        found = re.search(r"^Pid: (\d+)$", await self._ask("show info"), re.MULTILINE)
        if not found:
            raise GatewayError("the gateway does not name its pid")
        return int(found[1])

    async def _has_streams(self, fleet: str, replica: str) -> bool:
        # A stream that has ended on the replica's side may still be read by its client. HAProxy
        # 2.6 no longer counts it among the server's sessions and so would delete the server, to
        # which the stream still points.
        sessions = await self._ask("show sess")
        pattern = rf" be={re.escape(fleet)} srv={re.escape(replica)} "
        return re.search(pattern, sessions) is not None

    async def _forget_canaries(self, server: str) -> None:
        if server in _map_entries(await self._ask(f"show map {REPLICAS_MAP}")):
            await self._act(f"del map {REPLICAS_MAP} {server}")

    def _server(self, fleet: str, replica: str) -> str:
        self._check_fleet(fleet)
        if not NAME.fullmatch(replica):
            raise ValueError(f"replica = {replica!r}, {NAME_ALLOWED}")
        return f"{fleet}/{replica}"

    def _check_fleet(self, fleet: str) -> None:
        if fleet not in self._fleets:
            raise ValueError(f"fleet = {fleet!r}, must be one of {', '.join(self._fleets)}")

    async def _act(self, command: str, expected: str = "") -> None:
        answer = await self._ask(command)
        if answer.strip() != expected:
            raise GatewayCommandError(command, answer)

    async def _ask(self, command: str) -> str:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._exchange(command)
        except OSError as error:  # a timeout is one too
            raise GatewayError(f"{self._socket} does not answer {command!r}: {error!r}") from error

    async def _exchange(self, command: str) -> str:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(command.encode() + b"\n")
            return (await reader.read()).decode(errors="replace")
        finally:
            writer.close()


def _map_entries(text: str) -> dict[str, str]:
    """The entries of an answer to `show map`: lines of `reference key value`."""
    lines = (line.split(maxsplit=2) for line in text.splitlines() if line.startswith("0x"))
    return {words[1]: words[2] for words in lines}


def _address(host: str, port: int) -> str:
    address = ipaddress.ip_address(host)
    if not 1 <= port <= 65535:
        raise ValueError(f"port = {port}, must be in [1, 65535]")
    return f"ipv{address.version}@{address}:{port}"


def _check_ceiling(ceiling: int) -> None:
    # 0 would mean no ceiling to HAProxy.
    if not 1 <= ceiling <= MAX_CEILING:
        raise ValueError(f"ceiling = {ceiling}, must be in [1, {MAX_CEILING}]")
