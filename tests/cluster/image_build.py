"""The project's images for the real node: python -m tests.cluster.image_build

A base made by debootstrap; controller, gateway and emulator on it; the two vLLM images on the
emulator, which stands in for AWS's. Cached by what goes into each, outside the clone.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from images import build as recipe
from tests.cluster import image_base
from tests.cluster.buildah import Buildah
from tests.cluster.errors import ClusterError

_REGISTRY = "neuronfleet.local"
_ON_EMULATOR = ("vllm-neuron-gen1", "vllm-neuron-gen2")
_RECIPE = "1"
"""Raise it where this module makes other images of the same files."""
_KEPT = 3
"""Builds of an image that are kept."""
_LAYERS = 150
"""Unnamed layers that are kept to build upon: about 8 come with each change of the project."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """One built image."""

    name: str
    reference: str
    """neuronfleet.local/NAME:<12 hex digits of what went into it>."""
    archive: Path
    """OCI archive, under that reference."""
    digest: str
    """Of its manifest."""


def cache() -> Path:
    """Where images are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "neuronfleet/images"


def build_all(say: Say | None = None) -> dict[str, ImageRef]:
    """Build what is not cached, by name; a second caller waits for the first.

    Raises:
        ClusterError: a build failed, or a program is missing.
    """
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    with _alone(cache()), tempfile.TemporaryDirectory() as scratch:
        return Builder(root=cache(), scratch=Path(scratch), say=say).run()


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def hash_of(*parts: str | bytes | Path) -> str:
    """12 hex digits over texts and the files of folders, their names and modes among them."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            files = sorted(one for one in part.rglob("*") if one.is_file())
            for path in files or [part]:
                digest.update(f"{path.relative_to(part)} {path.stat().st_mode:o}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        else:
            digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\1")
    return digest.hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """One run over all images."""

    root: Path
    scratch: Path
    say: Say

    @property
    def buildah(self) -> Buildah:
        """The storage of all builds."""
        return Buildah(root=self.root / "buildah")

    @property
    def context(self) -> Path:
        """What the Dockerfiles copy from."""
        return self.scratch / "context"

    def run(self) -> dict[str, ImageRef]:
        """Build what is missing, prune what is old."""
        app = recipe.wheel(self.scratch / "app")
        recipe.stage(self.context, self.wheels(), app)
        hashes = self.hashes()
        built = {name: ref for name in hashes if (ref := self.cached(name, hashes[name]))}
        try:
            for name in (name for name in hashes if name not in built):
                built[name] = self.build(name, hashes)
        finally:
            if self.buildah.root.exists():
                self.buildah.unmount()
        return {name: built[name] for name in recipe.NAMES}

    def wheels(self) -> Path:
        """The lock's wheels, fetched once a lock."""
        folder = self.root / "wheels" / hash_of(recipe.LOCK)
        if not folder.exists():
            with self._timed("wheels of requirements/controller.lock"):
                shutil.rmtree(aside := folder.with_suffix(".partial"), ignore_errors=True)
                recipe.download(aside)
                aside.rename(folder)
        return folder

    def hashes(self) -> dict[str, str]:
        """What goes into each image, in the order of building."""
        base = hash_of(_RECIPE, image_base.SUITE, *image_base.PACKAGES)
        made = {}
        for name in recipe.WITH_PYTHON:
            files = (self.context / "images" / name, self.context / "requirements")
            made[name] = hash_of(base, *files, self.context / "wheels/app")
        for name in _ON_EMULATOR:
            files = (self.context / "images" / name, self.context / "images/replica")
            made[name] = hash_of(made["emulator"], *files)
        return made

    def base(self) -> str:
        """The base's name, made by debootstrap where it is missing."""
        image = f"{_REGISTRY}/base:{hash_of(_RECIPE, image_base.SUITE, *image_base.PACKAGES)}"
        if not self.buildah.has(image):
            with (
                self._timed(f"base: debootstrap {image_base.SUITE}"),
                self.buildah.scratch() as made,
            ):
                container, mounted = made
                image_base.make(mounted)
                self.buildah("commit", container, image)
        return image

    def build(self, name: str, hashes: Mapping[str, str]) -> ImageRef:
        """Build one image and write its archive."""
        reference = f"{_REGISTRY}/{name}:{hashes[name]}"
        emulator = f"{_REGISTRY}/emulator:{hashes['emulator']}"
        on = emulator if name in _ON_EMULATOR else self.base()
        folder = self.root / hashes[name]
        folder.mkdir(exist_ok=True)
        with self._timed(reference):
            dockerfile = self.context / "images" / name / "Dockerfile"
            log = folder / f"{name}.log"
            self.buildah.build(dockerfile, self.context, reference, {"BASE": on}, log)
            aside = folder / f"{name}.partial"
            self.buildah.push(reference, aside)
            aside.rename(folder / f"{name}.tar")
        self._prune(name)
        made = self.cached(name, hashes[name])
        if made is None:
            raise ClusterError(f"{folder / name}.tar: no archive was written")
        return made

    def cached(self, name: str, digest: str) -> ImageRef | None:
        """An image that was built before from the same."""
        archive = self.root / digest / f"{name}.tar"
        if not archive.exists():
            return None
        archive.with_suffix(".log").touch()  # used now, so that it is not the oldest
        reference = f"{_REGISTRY}/{name}:{digest}"
        return ImageRef(
            name=name, reference=reference, archive=archive, digest=_manifest_digest(archive)
        )

    def _prune(self, name: str) -> None:
        """Drop builds of an image but the newest, failed ones among them, and many old layers."""
        logs = self.root.glob(f"*/{name}.log")
        for log in sorted(logs, key=lambda one: one.stat().st_mtime, reverse=True)[_KEPT:]:
            shutil.rmtree(log.parent)
            image = f"{_REGISTRY}/{name}:{log.parent.name}"
            if self.buildah.has(image):
                self.buildah("rmi", "--force", image)
        if len(self.buildah.layers()) > _LAYERS:
            self.buildah("rmi", "--prune")

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        self.say(f"building {what}")
        began = time.monotonic()
        yield
        self.say(f"built {what} in {time.monotonic() - began:.1f} s")


def _manifest_digest(archive: Path) -> str:
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        if index is None:
            raise ClusterError(f"{archive}: no index.json in it, must be an OCI archive")
        return str(json.load(index)["manifests"][0]["digest"])


def main() -> None:
    """Build all images and print them as JSON."""
    line = argparse.ArgumentParser(description=__doc__)
    line.add_argument("--clean", action="store_true", help="drop the cache and build nothing")
    if line.parse_args().clean:
        shutil.rmtree(cache(), ignore_errors=True)
        return
    try:
        built = build_all()
    except (ClusterError, recipe.BuildError) as error:
        sys.exit(f"tests.cluster.image_build: {error}")
    lines = {
        ref.name: {"reference": ref.reference, "archive": str(ref.archive), "digest": ref.digest}
        for ref in built.values()
    }
    print(json.dumps(lines, indent=2))


if __name__ == "__main__":
    main()
