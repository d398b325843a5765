#!/usr/bin/env python3
"""Build one of the project's images: images/build.py NAME --tag TAG [--tool docker].

The base is named by digest in images/bases.json. A tag alone is refused: what it names may change.
"""

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASES = ROOT / "images/bases.json"
LOCK = ROOT / "requirements/controller.lock"
NAMES = ("controller", "emulator", "gateway", "vllm-neuron-gen1", "vllm-neuron-gen2")
WITH_PYTHON = ("controller", "emulator", "gateway")
"""Images that the project's wheel is installed into."""


class BuildError(Exception):
    """An image cannot be built; says what to do."""


def base(name: str, bases: Path = BASES) -> str:
    """The reference of an image's base.

    Raises:
        BuildError: its digest is not known.
    """
    entry = json.loads(bases.read_text())[name]
    reference, digest = f"{entry['image']}:{entry['tag']}", entry["digest"]
    if digest is None:
        raise BuildError(
            f"{bases.name}: {name}.digest = null, must be the digest of {reference}; "
            f"resolve it with: crane digest {reference}"
        )
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise BuildError(
            f"{bases.name}: {name}.digest = {digest!r}, must be sha256:<64 hex digits>"
        )
    return f"{reference}@{digest}"


def download(wheels: Path, python: str = sys.executable) -> None:
    """Fetch the lock's wheels for the images' Python into a directory."""
    machine = platform.machine()
    platforms = [f"manylinux{which}_{machine}" for which in ("_2_28", "_2_17", "2014")]
    command = [python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--dest", str(wheels)]
    command += ["--python-version", "3.11", "--implementation", "cp"]
    command += [part for one in platforms for part in ("--platform", one)]
    _run([*command, "--requirement", str(LOCK)])


def wheel(into: Path, python: str = sys.executable) -> Path:
    """Build the project's wheel; the same sources make the same bytes."""
    shutil.rmtree(into, ignore_errors=True)
    command = [python, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(into)]
    _run(command, quiet=True)
    return next(into.glob("*.whl"))


def stage(context: Path, wheels: Path | None, app: Path | None) -> None:
    """Lay out what the Dockerfiles copy: images, the lock, wheels."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".mypy_cache")
    shutil.copytree(ROOT / "images", context / "images", ignore=ignored)
    (context / "requirements").mkdir()
    shutil.copy2(LOCK, context / "requirements")
    if wheels is not None and app is not None:
        shutil.copytree(wheels, context / "wheels/deps")
        (context / "wheels/app").mkdir()
        shutil.copy2(app, context / "wheels/app")


def _run(command: Sequence[str], *, quiet: bool = False) -> None:
    """Run a command; a quiet one says something only where it fails."""
    to = subprocess.PIPE if quiet else sys.stderr
    try:
        subprocess.run(command, check=True, cwd=ROOT, stdout=to, stderr=subprocess.STDOUT)
    except OSError as error:
        raise BuildError(f"{command[0]}: {error}") from error
    except subprocess.CalledProcessError as error:
        said = (error.stdout or b"").decode(errors="replace").strip()
        raise BuildError(f"{error} {said}".strip()) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Build one image."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("name", choices=NAMES)
    line.add_argument("--tag", required=True, help="name and tag of the image")
    line.add_argument("--tool", choices=("docker", "podman", "buildah"), default="docker")
    options = line.parse_args(arguments)
    try:
        reference = base(options.name)
        with tempfile.TemporaryDirectory() as folder:
            context, wheels, app = (Path(folder) / part for part in ("context", "wheels", "app"))
            if options.name in WITH_PYTHON:
                download(wheels)
                stage(context, wheels, wheel(app))
            else:
                stage(context, None, None)
            dockerfile = context / "images" / options.name / "Dockerfile"
            command = [options.tool, "build", "--build-arg", f"BASE={reference}"]
            _run([*command, "--file", str(dockerfile), "--tag", options.tag, str(context)])
    except BuildError as error:
        sys.exit(f"images/build.py: {error}")


if __name__ == "__main__":
    main()
