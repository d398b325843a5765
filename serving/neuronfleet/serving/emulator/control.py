"""The emulator's own endpoints: its state, its faults, its lateness."""

import json
from collections.abc import Callable

from aiohttp import web

from neuronfleet.serving.emulator.boot import Phase
from neuronfleet.serving.emulator.faults import Fault, Faults
from neuronfleet.serving.emulator.service import json_response


class Control:
    """Handlers of /emulator/, on the API port and the state port alike."""

    def __init__(
        self, state: Callable[[], dict[str, object]], faults: Faults, forget: Callable[[], None]
    ) -> None:
        self._state = state
        self._forget = forget
        self._faults = faults

    def add_routes(self, app: web.Application) -> None:
        """Serve them under `app`."""
        app.router.add_get("/emulator/state", self._get_state)
        app.router.add_get("/emulator/faults", self._get_faults)
        app.router.add_post("/emulator/faults", self._post_faults)
        app.router.add_post("/emulator/lateness/reset", self._reset_lateness)

    def add_health(self, app: web.Application) -> None:
        """On the state port: whether the API would answer."""
        app.router.add_get("/health", self._get_health)

    async def _get_state(self, request: web.Request) -> web.Response:
        return json_response(self._state())

    async def _get_health(self, request: web.Request) -> web.Response:
        ready = self._state()["phase"] == Phase.READY.value
        return web.Response(status=200 if ready else 503)

    async def _reset_lateness(self, request: web.Request) -> web.Response:
        """Begin a new window: a run is judged by its own lateness, not by the boots before it."""
        self._forget()
        return json_response(self._state())

    async def _get_faults(self, request: web.Request) -> web.Response:
        return json_response({"faults": self._faults.names()})

    async def _post_faults(self, request: web.Request) -> web.Response:
        try:
            body = json.loads(await request.read())
            fault, on = Fault(body["mode"]), body["on"]
            if not isinstance(on, bool):
                raise TypeError(f"on = {on!r}, must be in [true, false]")
        except (ValueError, KeyError, TypeError) as error:
            modes = [fault.value for fault in Fault]
            wanted = f'body must be {{"mode": one of {modes}, "on": true or false}}: {error}'
            return json_response({"detail": wanted}, 400)
        self._faults.turn(fault, on)
        return json_response({"faults": self._faults.names()})
