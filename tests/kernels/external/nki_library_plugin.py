"""What nki-library's published test harness lacks, for `--test-mode simulation`.

Used as `-p nki_library_plugin` with NKI_LIBRARY naming a checkout. It makes `nki` and
`nki_cpu_simulator` the interpreter of this project, stands in for four modules of AWS that the
published tree imports without having them, and deletes each test's dumped tensors at once.
NKI_UNWRITTEN=fault makes reads of unwritten memory faults, as they are for our own kernels.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

LIBRARY = Path(os.environ["NKI_LIBRARY"])
for entry in (LIBRARY, LIBRARY / "src"):
    sys.path.insert(0, str(entry))

from neuronfleet.kernels.interpreter import dtypes, platforms  # noqa: E402
from neuronfleet.kernels.interpreter.context import Settings, Unwritten  # noqa: E402
from neuronfleet.kernels.interpreter.install import install  # noqa: E402

SETTINGS = Settings(
    platform=platforms.PLATFORMS[os.environ.get("NKI_PLATFORM", "trn2")],
    unwritten=Unwritten(os.environ.get("NKI_UNWRITTEN", "poison")),
    strict=os.environ.get("NKI_STRICT", "1") == "1",
)


class _Anything(ModuleType):
    """A module that has every name, as an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def _module(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


class _Annotation:
    """`nt.tensor[...]` in signatures."""

    def __getitem__(self, key: object) -> "_Annotation":
        return self


def _stand_in() -> None:
    if not install(SETTINGS):
        raise pytest.UsageError("the real nki wheel is installed: this plug-in is not for it")
    nki = sys.modules["nki"]
    typing = _module("nki.typing", tensor=_Annotation(), mutable_tensor=_Annotation())
    compiler = _module("nki.compiler", __path__=[])
    builtin = _module("nki.builtin")
    nki.__dict__.update(typing=typing, compiler=compiler, builtin=builtin)
    _module("nki.compiler.frontend", NKIFrontend=object, ParserFrontend=object)
    _module("nki.compiler.ncc_driver", CompiledKernel=object, CompileOptions=object)
    language: Any = sys.modules["nki.language"]
    language.tensor = _Annotation()
    _module("nki_cpu_simulator", nki=nki, __path__=[])
    for name in ("builtin", "compiler", "isa", "isa.constants", "language", "tensor", "typing"):
        sys.modules[f"nki_cpu_simulator.nki.{name}"] = sys.modules[f"nki.{name}"]
    sys.modules["nki_cpu_simulator.nki"] = nki
    language.dtypes = sys.modules["nki.dtype"]
    sys.modules["nki_cpu_simulator.nki.language.dtypes"] = sys.modules["nki.dtype"]
    old = _module("neuronxcc", __path__=[])
    old_nki = _module("neuronxcc.nki", typing=typing, __path__=[])
    old.__dict__["nki"] = old_nki
    sys.modules["neuronxcc.nki.typing"] = typing
    for name in ("neuronxcc.starfish", "neuronxcc.starfish.support"):
        _module(name, __path__=[])
    _module("neuronxcc.starfish.support.dtype", static_cast=_static_cast)


def _static_cast(values: Any, dt: Any = None, dtype: Any = None, **_: Any) -> Any:
    wanted = dtype if dtype is not None else dt
    if isinstance(wanted, str):
        wanted = dtypes.as_dtype(wanted).numpy
    return np.asarray(values).astype(wanted)


def _is_float(kind: Any) -> bool:
    return np.dtype(kind).kind in "fV"


def _harness() -> None:
    names = ("bfloat16", "float8_e4m3", "float8_e4m3fn", "float8_e5m2")
    _module(
        "neuron_dtypes",
        **{name: np.dtype(getattr(ml_dtypes, name)) for name in names},
        float8_e4m3fn_x4=np.dtype(np.uint32),
        float8_e5m2_x4=np.dtype(np.uint32),
        float4_e2m1fn_x4=np.dtype(np.uint16),
        static_cast=_static_cast,
        is_float_type=_is_float,
    )
    _module("test.utils.perf_analysis_private", analyze_trace=lambda *_, **__: None)
    _module("test.utils.scripts", __path__=[])
    locks = "test.utils.scripts.remote_lock_scripts"
    sys.modules[locks] = _Anything(locks)
    import test.utils.test_orchestrator as orchestrator  # type: ignore[import-not-found]

    orchestrator.Orchestrator._compiled_kernel = None
    dump = orchestrator.Orchestrator._dump_output_tensors

    def noted(self: Any, tensors: Any) -> Any:
        path = dump(self, tensors)
        _DUMPS.append(Path(self.fs_config.artifacts_output_directory_path))
        return path

    orchestrator.Orchestrator._dump_output_tensors = noted


_DUMPS: list[Path] = []
_stand_in()
_harness()


@pytest.fixture(autouse=True)
def _no_dumps() -> Iterator[None]:
    """Delete what a test has dumped: tens of gigabytes over a run."""
    yield
    for path in _DUMPS:
        shutil.rmtree(path, ignore_errors=True)
    _DUMPS.clear()
