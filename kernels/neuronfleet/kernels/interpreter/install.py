"""Standing in for the real wheel: `import nki` finds this package where that is absent."""

import sys
from importlib.machinery import PathFinder
from types import ModuleType

from neuronfleet.kernels.interpreter import (
    collectives,
    dtypes,
    isa,
    language,
    launch,
    platform_choice,
    tensors,
)
from neuronfleet.kernels.interpreter.context import Settings
from neuronfleet.kernels.interpreter.isa import constants


def install(settings: Settings) -> bool:
    """Register as `nki`, with the settings of plain kernel calls.

    Returns:
        Whether this package is what `nki` now names; False where the real wheel is installed,
        which is left alone.
    """
    platform_choice.choose(settings)
    present = sys.modules.get("nki")
    if present is not None:
        return present.__dict__.get("interpreter", False) is True
    if PathFinder.find_spec("nki") is not None:
        return False
    root = ModuleType("nki", "The neuronfleet interpreter in place of nki.")
    root.__path__ = []
    parts: dict[str, ModuleType] = {
        "language": language,
        "isa": isa,
        "collectives": collectives,
        "dtype": dtypes,
        "tensor": tensors,
    }
    for name, module in parts.items():
        setattr(root, name, module)
        sys.modules[f"nki.{name}"] = module
    sys.modules["nki.isa.constants"] = constants
    root.__dict__.update(
        interpreter=True,
        jit=launch.jit,
        simulate=launch.simulate,
        cpu_simulate=launch.simulate,
    )
    sys.modules["nki"] = root
    return True


def uninstall() -> None:
    """Take back what `install` registered."""
    platform_choice.choose(None)
    root = sys.modules.get("nki")
    if root is not None and root.__dict__.get("interpreter", False) is True:
        for name in [m for m in sys.modules if m == "nki" or m.startswith("nki.")]:
            del sys.modules[name]
