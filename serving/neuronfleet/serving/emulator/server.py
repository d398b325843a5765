"""One replica with its sockets: boot, serve, fail, drain."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from neuronfleet.serving.emulator import boot
from neuronfleet.serving.emulator.boot import Phase
from neuronfleet.serving.emulator.control import Control
from neuronfleet.serving.emulator.core import Core
from neuronfleet.serving.emulator.faults import Fault, Faults
from neuronfleet.serving.emulator.lateness import LatenessLog
from neuronfleet.serving.emulator.service import Service
from neuronfleet.serving.emulator.settings import ReplicaSettings

Log = Callable[[str], None]
_BODY_LIMIT = 64 << 20


def print_line(line: str) -> None:
    """Log to stdout, a whole line at a time."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Replica:
    """An emulated replica; its API port is bound when, and only when, its boot has ended."""

    def __init__(
        self, settings: ReplicaSettings, *, log: Log = print_line, exit_on_crash: bool = False
    ) -> None:
        self.settings = settings
        self.faults = Faults(settings.faults)
        self.core = Core(settings, self.faults)
        self.port: int | None = None
        """The API's, once bound; a reboot keeps it."""
        self.state_port: int | None = None
        self._log = log
        self._exit_on_crash = exit_on_crash
        self._api: web.AppRunner | None = None
        self._state: web.AppRunner | None = None
        self._boot: asyncio.Task[None] | None = None
        self._chores: set[asyncio.Task[None]] = set()
        self._booted: list[dict[str, object]] = []
        self.faults.listen(self._fault_turned)

    async def start(self) -> None:
        """Bind the state port and begin the boot."""
        if self.settings.state_port is not None:
            self._state, self.state_port = await self._bind_state(self.settings.state_port)
            self._event("booting", state_port=self.state_port)
        self._boot = asyncio.create_task(self._boot_up())

    async def ready(self) -> None:
        """Wait until the boot has ended."""
        if self._boot is not None:
            await asyncio.shield(self._boot)

    async def drain(self) -> None:
        """Refuse what comes, finish what runs within `drain_seconds`, then stop."""
        if self.core.phase is Phase.READY:
            self.core.phase = Phase.DRAINING
            self._event("draining", held=self.core.engine.machine.held)
            seconds = self.core.clock.real_seconds(self.settings.drain_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.core.idle.wait()
        await self.stop()

    async def stop(self) -> None:
        """Close everything."""
        if self._boot is not None and not self._boot.done():
            self._boot.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._boot
        self.core.engine.stop()
        if not self.core.idle.is_set():
            # Streams whose engine has stopped never end: closing would wait for them.
            self._abort_connections()
        await self._close_api()
        if self._state is not None:
            await self._state.cleanup()
            self._state = None
        self.core.phase = Phase.STOPPED

    def state(self) -> dict[str, Any]:
        """What GET /emulator/state says."""
        sockets = {"port": self.port, "state_port": self.state_port, "pid": os.getpid()}
        return self.core.state() | sockets | {"boot": self._booted}

    def _forget_lateness(self) -> None:
        self.core.lateness = LatenessLog()

    async def _boot_up(self) -> None:
        core, seconds = self.core, dict.fromkeys(Phase, 0.0)
        self._booted = []
        for step in boot.steps(self.settings, self.faults):
            hit = boot.is_hit(self.settings.boot, self.faults)
            core.phase = step.phase
            self._say(boot.lines_before(self.settings, step.phase, hit))
            await asyncio.sleep(core.clock.real_seconds(step.seconds))
            self._say(boot.lines_after(self.settings, step, hit))
            seconds[step.phase] = step.seconds
            entry: dict[str, object] = {"phase": step.phase.value, "seconds": step.seconds}
            if step.phase is Phase.GRAPHS:
                entry["hit"] = hit
            self._booted.append(entry)
        if core.neuron is not None:
            in_process = (Phase.WEIGHTS, Phase.GRAPHS, Phase.WARM_UP)
            total = sum(seconds[phase] for phase in in_process)
            core.neuron.booted(seconds[Phase.WEIGHTS], seconds[Phase.GRAPHS], total)
        try:
            await self._bind_api()
        except OSError as error:
            core.phase = Phase.CRASHED
            self._event("failed", reason=str(error))
            if self._exit_on_crash:
                os._exit(1)
            raise

    async def _bind_api(self) -> None:
        app = web.Application(client_max_size=_BODY_LIMIT)
        Service(self.core).add_routes(app)
        Control(self.state, self.faults, self._forget_lateness).add_routes(app)
        # The lost connection of a client cancels its handler, which frees its slot.
        self._api = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.0
        )
        await self._api.setup()
        asked = self.settings.port if self.port is None else self.port
        site = web.TCPSite(self._api, self.settings.host, asked, backlog=4096)
        await site.start()
        self.port = self._api.addresses[0][1]
        self.core.engine.on_decode = self._crash_if_told
        self.core.phase = Phase.READY
        self._say([boot.listening_line(self.settings.host, self.port)])
        self._event("listening", port=self.port, state_port=self.state_port)
        if Fault.HANG in self.faults:
            self._fault_turned(Fault.HANG, True)

    async def _bind_state(self, port: int) -> tuple[web.AppRunner, int]:
        app = web.Application()
        control = Control(self.state, self.faults, self._forget_lateness)
        control.add_routes(app)
        control.add_health(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await runner.setup()
        await web.TCPSite(runner, self.settings.host, port).start()
        return runner, int(runner.addresses[0][1])

    def _fault_turned(self, fault: Fault, on: bool) -> None:
        if fault is Fault.HANG and self._api is not None:
            if on:
                self.core.answering.clear()
                self.core.engine.halt()
            else:
                self.core.answering.set()
                self.core.engine.resume()
        if fault is Fault.CRASH and not on and self.core.phase is Phase.CRASHED:
            self._chore(self._reboot())

    def _crash_if_told(self) -> bool:
        """In the middle of streams, as a runtime error takes a server down."""
        if Fault.CRASH not in self.faults:
            return False
        self._event("crashed")
        if self._exit_on_crash:
            os._exit(1)
        self.core.engine.stop()
        self.core.phase = Phase.CRASHED
        self._abort_connections()
        self._chore(self._close_api())
        return True

    def _abort_connections(self) -> None:
        server = None if self._api is None else self._api.server
        for connection in [] if server is None else server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    async def _close_api(self) -> None:
        runner, self._api = self._api, None
        if runner is not None:
            await runner.cleanup()

    async def _reboot(self) -> None:
        await self._close_api()
        self.core = Core(self.settings, self.faults)
        self._boot = asyncio.create_task(self._boot_up())

    def _chore(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def _say(self, lines: list[str]) -> None:
        for line in lines:
            self._log(f"INFO {line}")

    def _event(self, event: str, **more: object) -> None:
        self._log(json.dumps({"event": event, "model": self.settings.model, **more}))
