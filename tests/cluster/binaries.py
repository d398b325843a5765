"""The programs of the cluster, built once a lock from Go modules into the user's cache."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

BUILD = Path(__file__).with_name("build")
KUBERNETES = "v1.35.4"
_GO = (1, 26)
_VERSION = "k8s.io/component-base/version."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One Go module under build/ and what is built of it."""

    name: str
    programs: Mapping[str, str]
    """Package of each program, by the program's name."""
    files: Mapping[str, str]
    """Path within the module `module` of each data file kept beside the programs, by its name."""
    module: str = ""
    linked: tuple[str, ...] = ()
    """What `-X` sets: versions that the programs report."""
    toolchain: str = "local"
    minutes: float
    """About how long the first build takes on 2 cores."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What `go build` is told."""
        linked = " ".join(["-s -w", *(f"-X {one}" for one in self.linked)])
        return ("-trimpath", "-buildvcs=false", "-ldflags", linked)

    @property
    def lock(self) -> str:
        """16 hex digits over all that the result depends on."""
        digest = hashlib.sha256()
        for path in sorted((BUILD / self.name).iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        wanted = (self.flags, sorted(self.programs.items()), sorted(self.files.items()))
        digest.update(repr((wanted, self.toolchain)).encode())
        return digest.hexdigest()[:16]


_STAGES = "kustomize/stage"
_CRDS = "pkg/apis/crds"
TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="kubernetes",
            programs={
                program: f"k8s.io/kubernetes/cmd/{program}"
                for program in (
                    "kube-apiserver",
                    "kube-controller-manager",
                    "kube-proxy",
                    "kube-scheduler",
                    "kubectl",
                    "kubelet",
                )
            },
            files={},
            linked=(
                f"{_VERSION}gitVersion={KUBERNETES}",
                f"{_VERSION}gitMajor=1",
                f"{_VERSION}gitMinor=35",
                f"{_VERSION}gitTreeState=clean",
            ),
            minutes=5,
        ),
        Tool(
            name="etcd",
            programs={"etcd": "go.etcd.io/etcd/server/v3"},
            files={},
            minutes=0.5,
        ),
        Tool(
            name="kwok",
            programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
            files={
                "node.yaml": f"{_STAGES}/node/fast/node-initialize.yaml",
                "heartbeat.yaml": (
                    f"{_STAGES}/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml"
                ),
                "pod-ready.yaml": f"{_STAGES}/pod/fast/pod-ready.yaml",
                "pod-complete.yaml": f"{_STAGES}/pod/fast/pod-complete.yaml",
                "pod-delete.yaml": f"{_STAGES}/pod/fast/pod-delete.yaml",
            },
            module="sigs.k8s.io/kwok",
            minutes=1,
        ),
        Tool(
            name="karpenter",
            programs={"karpenter": "sigs.k8s.io/karpenter/kwok"},
            files={
                "nodepools.yaml": f"{_CRDS}/karpenter.sh_nodepools.yaml",
                "nodeclaims.yaml": f"{_CRDS}/karpenter.sh_nodeclaims.yaml",
                "nodeoverlays.yaml": f"{_CRDS}/karpenter.sh_nodeoverlays.yaml",
                "capacitybuffers.yaml": f"{_CRDS}/autoscaling.x-k8s.io_capacitybuffers.yaml",
                "kwoknodeclasses.yaml": "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
            },
            module="sigs.k8s.io/karpenter",
            toolchain="go1.27.3",
            minutes=2,
        ),
        Tool(name="coredns", programs={"coredns": "."}, files={}, minutes=1),
        Tool(name="helm", programs={"helm": "helm.sh/helm/v3/cmd/helm"}, files={}, minutes=1),
        Tool(
            name="crictl",
            programs={"crictl": "sigs.k8s.io/cri-tools/cmd/crictl"},
            files={},
            minutes=0.5,
        ),
        Tool(name="probe", programs={"probe": "."}, files={}, minutes=0.2),
    )
}


def cache_root() -> Path:
    """Where what is built once is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuronfleet"


def directory(name: str) -> Path:
    """Where a tool's programs (bin/) and files (share/) lie, built or not."""
    return cache_root() / TOOLS[name].lock


def ensure(name: str) -> Path:
    """The tool's directory, built first where it is not there.

    Raises:
        ClusterError: Go is missing or too old, or the build failed.
    """
    target = directory(name)
    if not target.is_dir():
        with _lock():
            # Another builder may have finished it while this one waited.
            if not target.is_dir():
                _build(TOOLS[name], target)
    return target


def program(name: str) -> Path:
    """The path of one program, its tool built where it is not there."""
    for tool in TOOLS.values():
        if name in tool.programs:
            return ensure(tool.name) / "bin" / name
    raise ClusterError(f"program = {name}, must be one of a tool in {__file__}")


@contextmanager
def _lock() -> Iterator[None]:
    # One build at a time for all tools: a second would only slow the first.
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "cluster-build.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(tool: Tool, target: Path) -> None:
    require_go()
    length = "less than a minute" if tool.minutes < 1 else f"about {tool.minutes:.0f} min"
    names = ", ".join(tool.programs)
    print(f"building {names} ({length} on 2 cores, once) in {target}", file=sys.stderr, flush=True)
    # Built aside and renamed, so that a build that was cut short leaves nothing that looks whole.
    for stale in target.parent.glob(f"{target.name}-*"):
        shutil.rmtree(stale)
    aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}-"))
    try:
        _compile(tool, aside / "bin")
        _copy_files(tool, aside / "share")
        aside.rename(target)
    except BaseException:
        shutil.rmtree(aside)
        raise


def _compile(tool: Tool, folder: Path) -> None:
    folder.mkdir()
    several = len(tool.programs) > 1
    output = f"{folder}/" if several else str(folder / next(iter(tool.programs)))
    _go(tool, "build", *tool.flags, "-o", output, *tool.programs.values())


def _copy_files(tool: Tool, folder: Path) -> None:
    folder.mkdir()
    if not tool.files:
        return
    source = Path(_go(tool, "list", "-m", "-f", "{{.Dir}}", tool.module).strip())
    for name, path in tool.files.items():
        shutil.copyfile(source / path, folder / name)


def _go(tool: Tool, *arguments: str) -> str:
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": tool.toolchain, "GOWORK": "off"}
    done = subprocess.run(
        ("go", *arguments), cwd=BUILD / tool.name, env=env, capture_output=True, text=True
    )
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise ClusterError(f"go {arguments[0]} of {tool.name} failed:\n{last}")
    return done.stdout


def require_go() -> None:
    """Check the one prerequisite of every build.

    Raises:
        ClusterError: there is no Go, or an older one.
    """
    wanted = "Go 1.26 or later is a prerequisite of the cluster suite"
    try:
        # GOTOOLCHAIN=local: the toolchain installed here is asked for, not one it would fetch.
        said = subprocess.run(
            ("go", "env", "GOVERSION"),
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as wrong:
        raise ClusterError(f"{wanted}, and `go` was not found: install it from go.dev") from wrong
    found = re.match(r"go(\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) < _GO:
        raise ClusterError(f"{wanted}, and `go` is {said}: install a newer one from go.dev")
