"""CRDs and chart of Karpenter's AWS provider, fetched once a lock from its Go module.

Nothing is built: what is deployed to AWS is its published image. The version is that of the
chart's pin (infra/charts/karpenter.py) and of the core that this cluster runs.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.cluster import binaries
from tests.cluster.errors import ClusterError

LOCK = binaries.BUILD / "karpenter-provider-aws"
MODULE = "github.com/aws/karpenter-provider-aws"
TOOLCHAIN = "go1.27.3"
_PARTS = {"crds": "pkg/apis/crds", "chart": "charts/karpenter"}
"""Folder of the module, by the name that it is kept under."""


def version() -> str:
    """The locked version, as v1.14.3."""
    found = re.search(rf"^require {re.escape(MODULE)} (\S+)$", (LOCK / "go.mod").read_text(), re.M)
    if found is None:
        raise ClusterError(f"{LOCK}/go.mod requires no {MODULE}")
    return found[1]


def crds() -> Path:
    """The folder of all CRDs, NodePools and EC2NodeClasses among them."""
    return _ensure() / "crds"


def chart() -> Path:
    """The folder of the controller's chart."""
    return _ensure() / "chart"


def _ensure() -> Path:
    digest = hashlib.sha256()
    for path in sorted(LOCK.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(repr(sorted(_PARTS.items())).encode())
    target = binaries.cache_root() / digest.hexdigest()[:16]
    if target.is_dir():
        return target
    source = _download()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Copied aside and renamed, so that a copy that was cut short leaves nothing that looks whole.
    aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}-"))
    try:
        for name, part in _PARTS.items():
            shutil.copytree(source / part, aside / name, copy_function=shutil.copyfile)
        aside.rename(target)
    except OSError:
        shutil.rmtree(aside)
        if not target.is_dir():
            raise
    return target


def _download() -> Path:
    """The module's folder, its content being what the lock says."""
    binaries.require_go()
    wanted = version()
    done = subprocess.run(
        ("go", "mod", "download", "-json", f"{MODULE}@{wanted}"),
        cwd=tempfile.gettempdir(),
        env={**os.environ, "GOTOOLCHAIN": TOOLCHAIN, "GOWORK": "off", "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise ClusterError(f"go mod download {MODULE}@{wanted} failed:\n{done.stderr[-2000:]}")
    said = json.loads(done.stdout)
    if f"{MODULE} {wanted} {said['Sum']}" not in (LOCK / "go.sum").read_text():
        raise ClusterError(
            f"{MODULE}@{wanted} has sum {said['Sum']}, must be that of {LOCK}/go.sum"
        )
    return Path(said["Dir"])
