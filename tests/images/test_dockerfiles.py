"""Rules of the images: what their Dockerfiles must and must not hold."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from images import build

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted((ROOT / "images").glob("*/Dockerfile"))
SCRIPTS = [
    path
    for path in sorted((ROOT / "images").rglob("*"))
    if path.is_file() and path.suffix != ".pyc" and path.read_bytes()[:9] == b"#!/bin/sh"
]
BIN = Path(sys.executable).parent


@pytest.fixture(params=DOCKERFILES, ids=lambda path: path.parent.name)
def text(request: pytest.FixtureRequest) -> str:
    """A Dockerfile without its comments, one instruction a line."""
    path: Path = request.param
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return re.sub(r"\\\n\s*", " ", "\n".join(lines))


def test_every_image_has_a_dockerfile_and_a_base() -> None:
    assert tuple(path.parent.name for path in DOCKERFILES) == build.NAMES
    assert tuple(json.loads(build.BASES.read_text())) == build.NAMES


def test_the_base_is_an_argument_without_a_default(text: str) -> None:
    assert re.search(r"^ARG BASE$", text, re.MULTILINE)
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {"${BASE}"}


def test_the_user_is_a_number_that_is_not_root(text: str) -> None:
    users = re.findall(r"^USER (\S+)$", text, re.MULTILINE)

    assert users[-1] == "65532:65532"


def test_nothing_is_fetched_but_debian_packages_of_a_pinned_version(text: str) -> None:
    assert not re.search(r"^ADD |https?://|curl|wget|git clone|:latest", text, re.MULTILINE)
    for installed in re.findall(r"apt-get install ([^&]*)", text):
        packages = [word for word in installed.split() if not word.startswith("--")]
        assert all("=" in package for package in packages)
    for line in re.findall(r"pip install.*", text):
        assert "--no-index" in line
        assert "--require-hashes" in line


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_hadolint_is_content(path: Path) -> None:
    done = subprocess.run([BIN / "hadolint", path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shellcheck_is_content(path: Path) -> None:
    done = subprocess.run([BIN / "shellcheck", path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")
    assert path.stat().st_mode & 0o111


def test_the_images_lock_holds_the_versions_that_the_tests_run_with() -> None:
    def pins(lock: str) -> set[str]:
        text = (ROOT / "requirements" / lock).read_text()
        return set(re.findall(r"^([a-z0-9-]+==\S+)", text, re.MULTILINE))

    images = pins("controller.lock")

    assert images
    assert images <= pins("dev.lock")
