import gzip
import io
import json
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from neuronfleet.serving.api.hardware import catalog
from tests.cluster import binaries, images, network, offers, processes
from tests.cluster.binaries import TOOLS
from tests.cluster.errors import ClusterError
from tests.cluster.layout import default
from tests.cluster.machine import load
from tests.cluster.offers import Offer
from tests.cluster.processes import Daemon


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of binaries."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "neuronfleet"


def test_every_tool_is_locked_to_the_checksums_of_its_modules() -> None:
    for name in TOOLS:
        folder = binaries.BUILD / name
        needs_sums = "require" in (folder / "go.mod").read_text()
        assert bool((folder / "go.sum").read_text()) == needs_sums, name


def test_a_lock_is_of_the_module_files_the_flags_and_what_is_kept() -> None:
    tool = TOOLS["etcd"]
    others = (
        replace(tool, linked=("a=b",)),
        replace(tool, toolchain="go9"),
        replace(tool, files={"a": "b"}),
        TOOLS["helm"],
    )
    assert tool.lock == replace(tool, minutes=9).lock
    assert len({tool.lock, *(other.lock for other in others)}) == 5


def test_a_tool_that_is_there_is_not_built_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binaries.directory("etcd").mkdir(parents=True)
    monkeypatch.setenv("PATH", "")
    assert binaries.program("etcd") == cache / TOOLS["etcd"].lock / "bin/etcd"


def test_a_build_that_fails_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "require_go", lambda: None)

    def fails(tool: binaries.Tool, *arguments: str) -> str:
        (cache / f"{tool.lock}-x").mkdir()
        raise ClusterError("no disk")

    monkeypatch.setattr(binaries, "_go", fails)
    for _ in range(2):
        with pytest.raises(ClusterError, match="no disk"):
            binaries.ensure("etcd")
        # What a build leaves that was killed is swept by the next one.
        left = {path.name for path in cache.iterdir()}
        assert left == {"cluster-build.lock", f"{TOOLS['etcd'].lock}-x"}
    assert not binaries.directory("etcd").exists()


def test_go_that_is_missing_is_named_as_the_prerequisite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClusterError, match=r"Go 1\.26 or later is a prerequisite"):
        binaries.require_go()


def test_go_that_is_too_old_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.25.9\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(ClusterError, match=r"Go 1\.26 or later .* `go` is go1\.25\.9"):
        binaries.require_go()


def test_the_cloud_sells_each_type_with_the_devices_of_the_catalog() -> None:
    document = offers.instance_types()
    assert [one["name"] for one in document] == list(offers.INSTANCE_TYPES)
    for one in document:
        devices = int(one["resources"]["aws.amazon.com/neuron"])
        assert devices == catalog()[one["name"]].accelerators
        assert len(one["offerings"]) == len(offers.ZONES) * len(offers.CAPACITY_TYPES)
        assert all(offering["Price"] > 0 for offering in one["offerings"])


def test_spot_is_cheaper_than_reserved_and_that_than_on_demand() -> None:
    for name in offers.INSTANCE_TYPES:
        spot, reserved, on_demand = (
            offers.price(name, kind) for kind in ("spot", "reserved", "on-demand")
        )
        assert spot < reserved < on_demand


def test_a_withdrawn_offer_is_not_sold() -> None:
    zone, kind = offers.ZONES[0], "spot"
    kept = offers.instance_types(
        [Offer(instance_type="inf2.xlarge"), Offer(zone=zone, capacity_type=kind)]
    )
    assert "inf2.xlarge" not in {one["name"] for one in kept}
    sold = {
        tuple(requirement["values"][0] for requirement in offering["Requirements"])
        for one in kept
        for offering in one["offerings"]
    }
    assert (kind, zone, offers.REGION) not in sold
    assert (kind, offers.ZONES[1], offers.REGION) in sold


def test_the_filter_loses_the_rules_of_the_cluster_and_no_other() -> None:
    saved = (
        "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n:KUBE-SERVICES - [0:0]\n"
        "-A PREROUTING -j KUBE-SERVICES\n-A PREROUTING -j DOCKER\n"
        '-A FORWARD -i nfbr0 -m comment --comment "neuronfleet-cluster" -j ACCEPT\nCOMMIT\n'
    )
    assert network.without(saved) == (
        "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n"
    )


def test_an_image_archive_holds_its_layer_under_the_digest_it_names(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    images.write_archive(archive, "example.com/a:1", {"run": b"program"}, ("/run",))
    with tarfile.open(archive) as tar:
        blobs = {one.name: read.read() for one in tar if (read := tar.extractfile(one))}
    entry = json.loads(blobs["index.json"])["manifests"][0]
    assert entry["annotations"]["io.containerd.image.name"] == "example.com/a:1"
    manifest = json.loads(blobs[_path(entry["digest"])])
    layer = gzip.decompress(blobs[_path(manifest["layers"][0]["digest"])])
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert [(one.name, one.mode) for one in tar] == [("run", 0o755)]


def _path(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def test_a_signal_never_reaches_a_process_that_took_over_the_pid() -> None:
    with subprocess.Popen(("sleep", "30")) as child:
        started = processes.start_time(child.pid)
        assert started is not None
        stranger = Daemon(name="a", arguments=(), log="", pid=child.pid, started=started - 1)
        processes.stop(stranger, grace_s=0.1)
        assert child.poll() is None
        processes.stop(replace(stranger, started=started))
        assert child.wait() != 0


def test_a_state_folder_too_deep_for_sockets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("deep" * 30)))
    with pytest.raises(ClusterError, match=r"XDG_STATE_HOME = .* is too long"):
        default()


def test_a_record_that_was_cut_short_is_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/tmp/nf-test-none")
    layout = replace(default(), root=tmp_path)
    assert load(layout) is None
    layout.record.write_text('{"lock": "a", "daemons": {"etcd": {"na')
    assert load(layout) is None
