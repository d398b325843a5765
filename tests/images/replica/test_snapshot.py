import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from neuronfleet_replica.settings import Source, SourceKind, parse
from neuronfleet_replica.snapshot import MARKER, SnapshotError, draft_source, place, resolve
from tests.images.replica.helpers import RAW, changed


def source(kind: str, location: str, revision: str | None = None) -> Source:
    return Source(kind=SourceKind(kind), location=location, revision=revision)


def a_model(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text("{}")
    return path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str | None, str]]:
    """A hub that gives a model of one file; its calls."""
    calls: list[tuple[str, str | None, str]] = []

    def snapshot_download(repo_id: str, *, revision: str | None, local_dir: str) -> None:
        calls.append((repo_id, revision, local_dir))
        a_model(Path(local_dir))

    module: Any = types.ModuleType("huggingface_hub")
    module.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return calls


def copier(tmp_path: Path, *lines: str) -> dict[str, str]:
    """An environment whose copying program runs these lines with FROM and TO as $1 and $2."""
    program = tmp_path / "copy"
    program.write_text("#!/bin/sh\nset -e\n" + "\n".join(lines) + "\n")
    program.chmod(0o755)
    return {"NEURONFLEET_S3_COPY": str(program), "PATH": "/usr/bin:/bin"}


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    model = a_model(tmp_path / "m")

    assert resolve(source("path", str(model)), tmp_path, {}).path == model


@pytest.mark.parametrize("inside", ["llama/v1", "weights/llama/v1"])
def test_a_claims_path_is_found_under_the_mount(tmp_path: Path, inside: str) -> None:
    model = a_model(tmp_path / inside)

    assert resolve(source("pvc", "weights/llama/v1"), tmp_path, {}).path == model


def test_a_claim_may_be_the_model_itself(tmp_path: Path) -> None:
    assert resolve(source("pvc", "weights"), a_model(tmp_path), {}).path == tmp_path


@pytest.mark.parametrize("kind", ["path", "pvc"])
def test_a_directory_without_a_model_is_an_error_that_names_it(tmp_path: Path, kind: str) -> None:
    location = str(tmp_path / "m") if kind == "path" else "claim/m"

    with pytest.raises(SnapshotError, match=f"no config.json in {tmp_path}/m"):
        resolve(source(kind, location), tmp_path, {})


def test_the_hub_is_asked_once_for_a_revision(
    tmp_path: Path, hub: list[tuple[str, str | None, str]]
) -> None:
    wanted = source("huggingFace", "org/m", "abc")

    first, second = (resolve(wanted, tmp_path, {}) for _ in range(2))

    assert (first.reused, second.reused) == (False, True)
    assert first.path == second.path == tmp_path / "hub/org--m/abc"
    assert [call[:2] for call in hub] == [("org/m", "abc")]
    assert [one.name for one in first.path.parent.iterdir()] == ["abc"]


def test_another_revision_is_another_snapshot(
    tmp_path: Path, hub: list[tuple[str, str | None, str]]
) -> None:
    paths = {resolve(source("huggingFace", "org/m", one), tmp_path, {}).path for one in ("a", None)}

    assert paths == {tmp_path / "hub/org--m/a", tmp_path / "hub/org--m/default"}


def test_a_download_that_was_cut_short_goes_on_in_the_same_place(
    tmp_path: Path, hub: list[tuple[str, str | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = source("huggingFace", "org/m", "abc")
    whole = sys.modules["huggingface_hub"].snapshot_download

    def cut(repo_id: str, *, revision: str | None, local_dir: str) -> None:
        whole(repo_id, revision=revision, local_dir=local_dir)
        raise ConnectionError("reset")

    with monkeypatch.context() as patch:
        patch.setattr("huggingface_hub.snapshot_download", cut)
        with pytest.raises(SnapshotError, match="org/m: the hub gave no snapshot: reset"):
            resolve(wanted, tmp_path, {})
    found = resolve(wanted, tmp_path, {})

    assert not found.reused
    assert hub[0][2] == hub[1][2] != str(found.path)


def test_a_snapshot_of_something_else_is_not_taken_for_this_one(
    tmp_path: Path, hub: list[tuple[str, str | None, str]]
) -> None:
    wanted = source("huggingFace", "org/m", "abc")
    other = a_model(place(wanted, tmp_path / "hub"))
    (other / MARKER).write_text(json.dumps({"location": "org/other", "revision": "abc"}))

    with pytest.raises(OSError, match="not empty"):
        resolve(wanted, tmp_path, {})


def test_the_first_of_two_pods_on_one_volume_wins(
    tmp_path: Path, hub: list[tuple[str, str | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = source("huggingFace", "org/m", "abc")
    whole = sys.modules["huggingface_hub"].snapshot_download

    def overtaken(repo_id: str, *, revision: str | None, local_dir: str) -> None:
        monkeypatch.setattr("huggingface_hub.snapshot_download", whole)
        monkeypatch.setattr("socket.gethostname", lambda: "another-pod")
        resolve(wanted, tmp_path, {})
        whole(repo_id, revision=revision, local_dir=local_dir)

    monkeypatch.setattr("huggingface_hub.snapshot_download", overtaken)

    found = resolve(wanted, tmp_path, {})

    assert (found.path / MARKER).exists()
    assert [one.name for one in found.path.parent.iterdir()] == ["abc"]


def test_an_image_without_the_hubs_client_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)

    with pytest.raises(SnapshotError, match="this image has no huggingface_hub: put the model on"):
        resolve(source("huggingFace", "org/m"), tmp_path, {})


def test_a_bucket_is_copied_by_the_named_program_once(tmp_path: Path) -> None:
    environ = copier(tmp_path, 'echo "$1" > "$2/from"', 'echo "{}" > "$2/config.json"')
    wanted = source("s3", "s3://bucket/models/m/")

    first, second = (resolve(wanted, tmp_path, environ) for _ in range(2))

    assert (first.path / "from").read_text() == "s3://bucket/models/m/\n"
    assert first.path == tmp_path / "s3/bucket--models--m/default"
    assert second.reused


def test_a_copy_that_fails_leaves_no_snapshot(tmp_path: Path) -> None:
    environ = copier(tmp_path, 'echo "{}" > "$2/config.json"', "exit 3")
    wanted = source("s3", "s3://bucket/m")

    with pytest.raises(SnapshotError, match="ended with status 3"):
        resolve(wanted, tmp_path, environ)
    assert not place(wanted, tmp_path / "s3").exists()


def test_a_copy_that_brings_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"no config\.json came"):
        resolve(source("s3", "s3://bucket/m"), tmp_path, copier(tmp_path, "true"))


def test_an_image_without_the_copying_program_names_it(tmp_path: Path) -> None:
    with pytest.raises(
        SnapshotError, match=r"NEURONFLEET_S3_COPY = 'aws s3 sync.*mount the bucket"
    ):
        resolve(source("s3", "s3://bucket/m"), tmp_path, {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("draft", "kind"), [("org/draft", "huggingFace"), ("/models/draft", "path")]
)
def test_a_draft_model_comes_from_the_hub_or_a_directory(draft: str, kind: str) -> None:
    speculation = {"method": "eagle", "draftModel": draft, "tokens": 3}

    assert draft_source(parse(changed(RAW, variant__speculation=speculation))) == source(
        kind, draft
    )


def test_without_speculation_there_is_no_draft_model() -> None:
    assert draft_source(parse(RAW)) is None
