"""Images for the real node: the cluster's own, and those that tests bring as archives."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

from tests.cluster import binaries, processes
from tests.cluster.layout import Layout

PROBE = "neuronfleet.local/probe:1"
"""The cluster's own image: pause container, small HTTP server (`serve PORT`) and client
(`fetch URL`)."""

_OCI = "application/vnd.oci.image"


def ctr(layout: Layout, *arguments: str, timeout_s: float = 300.0) -> str:
    """Run containerd's client in the namespace of Kubernetes."""
    entry = ("ctr", "--address", str(layout.containerd_socket), "--namespace", "k8s.io")
    return processes.run(*entry, *arguments, timeout_s=timeout_s)


def import_archive(layout: Layout, archive: Path) -> None:
    """Bring an OCI or Docker archive to the node, under the names that it carries."""
    ctr(layout, "images", "import", str(archive))


def names(layout: Layout) -> tuple[str, ...]:
    """Names of the node's images."""
    return tuple(ctr(layout, "images", "list", "--quiet").split())


def import_probe(layout: Layout) -> None:
    """Bring the cluster's own image to the node."""
    archive = layout.folder("config") / "probe.tar"
    program = binaries.program("probe").read_bytes()
    write_archive(archive, PROBE, {"probe": program}, ("/probe",))
    import_archive(layout, archive)


def write_archive(
    archive: Path, name: str, files: dict[str, bytes], entrypoint: tuple[str, ...]
) -> None:
    """Write an OCI archive of one layer with these files alone, each of them executable."""
    layer = _tar({path: (content, 0o755) for path, content in files.items()})
    packed = gzip.compress(layer, mtime=0)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
    }
    blobs: dict[str, bytes] = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _add(blobs, "config.v1+json", _json(config)),
        "layers": [_add(blobs, "layer.v1.tar+gzip", packed)],
    }
    entry = _add(blobs, "manifest.v1+json", _json(manifest))
    entry["annotations"] = {"io.containerd.image.name": name}
    blobs["index.json"] = _json({"schemaVersion": 2, "manifests": [entry]})
    blobs["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    archive.write_bytes(_tar({path: (content, 0o644) for path, content in blobs.items()}))


def _add(blobs: dict[str, bytes], kind: str, content: bytes) -> dict[str, object]:
    digest = _digest(content)
    blobs[f"blobs/sha256/{digest}"] = content
    return {"mediaType": f"{_OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, (content, mode) in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
