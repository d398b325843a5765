"""buildah with a storage of its own, which leaves nothing in the machine's."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
"""Nothing is pulled: all images come from this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buildah:
    """A storage under `root`."""

    root: Path

    @property
    def _driver(self) -> str:
        """overlay, but vfs where the storage itself lies on an overlay, as in a container."""
        self.root.mkdir(parents=True, exist_ok=True)
        command = ["stat", "--file-system", "--format", "%T", str(self.root)]
        kind = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return "vfs" if "overlay" in kind else "overlay"

    def __call__(self, command: str, *arguments: str | Path, log: Path | None = None) -> str:
        """Run one command; its standard output.

        Raises:
            ClusterError: it failed; with the end of what it said.
        """
        storage, run = self.root / "storage", self.root / "run"
        entry = ["buildah", "--root", str(storage), "--runroot", str(run)]
        entry += ["--storage-driver", self._driver, command, *self._policy(command)]
        try:
            done = subprocess.run(
                [*entry, *map(str, arguments)], capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise ClusterError("buildah is missing: apt-get install buildah") from error
        if log is not None:
            log.write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
            raise ClusterError(f"buildah {command} {' '.join(map(str, arguments))}: {said}")
        return done.stdout.strip()

    def _policy(self, command: str) -> Sequence[str]:
        if command not in ("bud", "commit", "from", "push"):
            return ()
        policy = self.root / "policy.json"
        if not policy.exists():
            policy.write_text(_POLICY)
        return ("--signature-policy", str(policy))

    def has(self, image: str) -> bool:
        """Whether the storage holds an image."""
        return image in self("images", "--format", "{{.Name}}:{{.Tag}}").splitlines()

    def layers(self) -> list[str]:
        """Images without a name: layers to build upon."""
        return self("images", "--all", "--quiet", "--filter", "dangling=true").splitlines()

    @contextlib.contextmanager
    def scratch(self) -> Iterator[tuple[str, Path]]:
        """An empty working container and its mounted root, gone afterwards."""
        container = self("from", "scratch")
        try:
            yield container, Path(self("mount", container))
        finally:
            self("rm", container)

    def build(
        self, dockerfile: Path, context: Path, image: str, build_args: Mapping[str, str], log: Path
    ) -> None:
        """Build an image; its layers are kept for the next time."""
        arguments = ["--isolation", "chroot", "--layers", "--pull-never", "--format", "oci"]
        for name, value in build_args.items():
            arguments += ["--build-arg", f"{name}={value}"]
        self("bud", *arguments, "--file", dockerfile, "--tag", image, context, log=log)

    def push(self, image: str, archive: Path) -> None:
        """Write an image to an archive, under its own name."""
        archive.unlink(missing_ok=True)
        self("push", "--disable-compression", image, f"oci-archive:{archive}:{image}")

    def unmount(self) -> None:
        """Remove working containers, and the mount that the overlay driver leaves."""
        self("rm", "--all")
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        below = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{self.root}/")]
        for mount in sorted(below, reverse=True):
            subprocess.run(["umount", mount], check=True)
