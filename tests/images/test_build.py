import json
from pathlib import Path

import pytest

from images import build
from tests.cluster.image_build import hash_of

DIGEST = f"sha256:{'0a' * 32}"


def bases(tmp_path: Path, digest: str | None) -> Path:
    file = tmp_path / "bases.json"
    entry = {"image": "registry.example/base", "tag": "1", "digest": digest}
    file.write_text(json.dumps({"controller": entry}))
    return file


def test_a_base_is_named_by_its_digest(tmp_path: Path) -> None:
    found = build.base("controller", bases(tmp_path, DIGEST))

    assert found == f"registry.example/base:1@{DIGEST}"


def test_a_base_without_a_digest_is_refused_with_the_command_that_finds_it(tmp_path: Path) -> None:
    with pytest.raises(build.BuildError, match=r"crane digest registry\.example/base:1"):
        build.base("controller", bases(tmp_path, None))


@pytest.mark.parametrize("digest", ["latest", "sha256:00", DIGEST.upper()])
def test_a_digest_that_is_none_is_refused(tmp_path: Path, digest: str) -> None:
    with pytest.raises(build.BuildError, match=r"controller\.digest = "):
        build.base("controller", bases(tmp_path, digest))


def test_digests_in_the_repository_are_true_or_absent() -> None:
    for name, entry in json.loads(build.BASES.read_text()).items():
        if entry["digest"] is not None:
            assert build.base(name)
        assert entry["tag"] != "latest"


def test_a_build_without_a_digest_ends_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = build.base
    monkeypatch.setattr(build, "base", lambda name: reference(name, bases(tmp_path, None)))

    with pytest.raises(SystemExit, match=r"images/build\.py: .*digest = null"):
        build.main(["controller", "--tag", "x:1"])


def test_the_context_holds_what_the_dockerfiles_copy(tmp_path: Path) -> None:
    wheels, app = tmp_path / "wheels", tmp_path / "project.whl"
    wheels.mkdir()
    (wheels / "one.whl").write_text("")
    app.write_text("")

    build.stage(tmp_path / "context", wheels, app)

    made = {str(one.relative_to(tmp_path / "context")) for one in (tmp_path / "context").rglob("*")}
    assert {
        "images/controller/Dockerfile",
        "images/replica/neuronfleet_replica/cli.py",
        "requirements/controller.lock",
        "wheels/deps/one.whl",
        "wheels/app/project.whl",
    } <= made
    assert not [one for one in made if "__pycache__" in one]


def test_a_hash_covers_names_contents_and_modes(tmp_path: Path) -> None:
    def folder(name: str, file: str, content: str, mode: int = 0o644) -> Path:
        made = tmp_path / name
        made.mkdir()
        (made / file).write_text(content)
        (made / file).chmod(mode)
        return made

    same = [folder("a", "f", "x"), folder("b", "f", "x")]
    others = [folder("c", "g", "x"), folder("d", "f", "y"), folder("e", "f", "x", 0o755)]

    assert len({hash_of(one) for one in same}) == 1
    assert len({hash_of(one) for one in [*same, *others]}) == 4
    assert hash_of("ab", "c") != hash_of("a", "bc")
