"""The platform of kernels that are called without settings of their own."""

from neuronfleet.kernels.interpreter.context import Settings
from neuronfleet.kernels.interpreter.faults import PlatformFault
from neuronfleet.kernels.interpreter.platforms import Platform

_CHOSEN: list[Settings] = []


def choose(settings: Settings | None) -> None:
    """Set the settings of plain calls, or take them back."""
    _CHOSEN[:] = [settings] if settings is not None else []


def chosen() -> Settings:
    """The settings of plain calls.

    Raises:
        PlatformFault: Where none were chosen: no chip is the default.
    """
    if not _CHOSEN:
        raise PlatformFault("no platform chosen", limit="install(settings) or launch.run(...)")
    return _CHOSEN[0]


def chosen_platform() -> Platform:
    """The platform of plain calls."""
    return chosen().platform
