import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from neuronfleet.infra import app
from tests.infra import examples

ROOT = Path(__file__).parents[2]
SNAPSHOTS = Path(__file__).parent / "snapshots"
RENEW = "NEURONFLEET_RENEW_SNAPSHOTS"
"""Set to 1, snapshots are written anew instead of compared: look at their diff then."""
NOW = "now=2026-12-01T00:00:00Z"
STACKS = (
    "Network",
    "Data",
    "Build",
    "Cluster",
    "Pool-trn1-efa",
    "Pool-trn2-block",
    "Addons",
    "Observability",
    "Serving",
)


@cache
def templates(name: str = examples.FULL) -> examples.Templates:
    return examples.templates(examples.assembly(name))


def resources(name: str, kind: str) -> Iterator[dict[str, Any]]:
    for template in templates(name).values():
        for one in template.get("Resources", {}).values():
            if one["Type"] == kind:
                yield one.get("Properties", {})


def content(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix == ".json"
    }


def test_the_full_example_has_every_stack() -> None:
    assert set(templates()) == {f"neuronfleet-{one}" for one in STACKS}


def test_two_syntheses_are_the_same_bytes() -> None:
    first, second = (
        examples.assembly(examples.FULL),
        examples.synthesise(examples.settings(examples.FULL)),
    )

    assert content(first) == content(second)


@pytest.mark.parametrize("name", examples.NAMES)
def test_nothing_is_looked_up_and_nothing_needs_docker(name: str) -> None:
    folder = examples.assembly(name)
    manifest = json.loads((folder / "manifest.json").read_text())
    assets = [json.loads(file.read_text()) for file in folder.glob("*.assets.json")]

    assert not manifest.get("missing")
    assert assets
    assert not [one for one in assets if one.get("dockerImages")]


@pytest.mark.parametrize("name", examples.NAMES)
def test_references_between_stacks_lock_no_export(name: str) -> None:
    text = json.dumps(templates(name))

    assert "Fn::ImportValue" not in text
    assert "Fn::GetStackOutput" in text


@pytest.mark.parametrize("name", examples.NAMES)
def test_everything_that_takes_tags_says_whose_it_is(name: str) -> None:
    for bucket in resources(name, "AWS::S3::Bucket"):
        assert {"Key": "neuronfleet:deployment", "Value": "neuronfleet"} in bucket["Tags"]


@pytest.mark.parametrize("name", examples.NAMES)
def test_no_role_trusts_everyone_and_no_policy_allows_everything(name: str) -> None:
    for role in resources(name, "AWS::IAM::Role"):
        for one in role["AssumeRolePolicyDocument"]["Statement"]:
            assert one["Principal"] not in ("*", {"AWS": "*"})
        for policy in role.get("Policies", []):
            for one in policy["PolicyDocument"]["Statement"]:
                assert not (one["Action"] == "*" and one["Resource"] == "*")


def test_a_fleet_without_recorded_digests_has_no_serving_stack() -> None:
    wanted = examples.settings(examples.FULL)
    missing = (replace(wanted.images[0], digest=None), *wanted.images[1:])

    assert app.is_built(wanted)
    assert not app.is_built(replace(wanted, images=missing))
    assert not app.is_built(replace(wanted, images=()))


def test_a_permissions_boundary_bounds_every_role() -> None:
    wanted = replace(examples.settings("us-west-2"), permissions_boundary="Bound")
    found = examples.templates(examples.synthesise(wanted))
    roles = [
        one["Properties"]
        for template in found.values()
        for one in template["Resources"].values()
        if one["Type"] == "AWS::IAM::Role"
    ]

    assert len(roles) > 5
    assert all("policy/Bound" in json.dumps(one["PermissionsBoundary"]) for one in roles)


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_is_as_its_snapshot(stack: str) -> None:
    found = json.dumps(normalised(templates()[f"neuronfleet-{stack}"]), indent=1, sort_keys=True)
    file = SNAPSHOTS / f"{stack}.json"
    if os.environ.get(RENEW) == "1":
        file.write_text(found + "\n", encoding="utf-8")

    assert file.read_text(encoding="utf-8") == found + "\n", f"{RENEW}=1 writes it anew"


def normalised(value: Any) -> Any:
    """Without hashes of assets, which change with CDK's and charts' every byte."""
    if isinstance(value, dict):
        return {key: normalised(one) for key, one in value.items()}
    if isinstance(value, list):
        return [normalised(one) for one in value]
    if isinstance(value, str) and value.endswith((".zip", ".tgz")) and len(value) == 68:
        return f"ASSET{value[64:]}"
    return value


def cdk(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The CDK command line as a user has it, without credentials and without network."""
    program = ROOT / "node_modules/.bin/cdk"
    environment = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": os.environ["HOME"],
        "PYTHONPATH": os.pathsep.join(str(ROOT / one) for one in ("infra", "serving")),
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    return subprocess.run(
        [str(program), *arguments, "--no-notices"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )


@pytest.mark.timeout(300)
def test_the_command_line_synthesises_strictly_without_credentials(tmp_path: Path) -> None:
    example = "settings=examples/infra/us-east-2.yaml"
    done = cdk("synth", "--strict", "--quiet", "-c", example, "-c", NOW, "-o", str(tmp_path))

    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "neuronfleet-Network.template.json").exists()


def run(*context: str) -> subprocess.CompletedProcess[str]:
    """The app as the command line starts it."""
    given = dict(one.split("=", 1) for one in context)
    environment = {
        **os.environ,
        "CDK_CONTEXT_JSON": json.dumps(given),
        "PYTHONPATH": os.pathsep.join(str(ROOT / one) for one in ("infra", "serving")),
    }
    command = [sys.executable, "-m", "neuronfleet.infra.app"]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100
    )


def test_wrong_settings_end_it_with_a_line_each_and_no_trace(tmp_path: Path) -> None:
    text = (ROOT / "examples/infra/us-east-2.yaml").read_text()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        text.replace("zones: [use2-az1]", "zones: [use2-az9]").replace("most: 8", "most: 800")
    )
    done = run(f"settings={wrong}", NOW)

    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2
    assert len(lines) >= 2
    assert all(" = " in line for line in lines)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ((), "settings is not given, must be a settings file"),
        (("settings=no-such-file.yaml", NOW), "no-such-file.yaml"),
        (("settings=examples/infra/us-east-2.yaml", "now=soon"), "now = soon, must be a time"),
    ],
)
def test_what_is_not_a_settings_file_or_a_time_ends_it_with_a_line(
    context: tuple[str, ...], said: str
) -> None:
    done = run(*context)

    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
