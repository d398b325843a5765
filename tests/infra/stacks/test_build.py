import json

from tests.infra.stacks.base import properties, template

PROJECT = "AWS::CodeBuild::Project"


def test_each_image_has_a_project_that_builds_it() -> None:
    found = properties("Build", PROJECT)
    images = {
        variable["Value"]
        for one in found
        for variable in one["Environment"]["EnvironmentVariables"]
        if variable["Name"] == "IMAGE"
    }

    assert len(found) == 4
    assert images == {"controller", "gateway", "vllm-neuron-gen1", "vllm-neuron-gen2"}


def test_projects_are_encrypted_logged_and_end() -> None:
    for one in properties("Build", PROJECT):
        assert one["EncryptionKey"]
        assert one["LogsConfig"]["CloudWatchLogs"]["Status"] == "ENABLED"
        assert one["TimeoutInMinutes"] <= 90
        assert one["Environment"]["PrivilegedMode"] is True


def test_a_build_ends_at_its_first_failing_step_and_records_the_digest_last() -> None:
    (spec,) = {one["Source"]["BuildSpec"] for one in properties("Build", PROJECT)}
    (script,) = json.loads(spec)["phases"]["build"]["commands"]
    lines = script.splitlines()

    assert lines[0] == "set -euo pipefail"
    pushed = next(n for n, line in enumerate(lines) if line.startswith("docker push"))
    recorded = next(n for n, line in enumerate(lines) if "put-parameter" in line)
    assert pushed < recorded


def test_a_build_may_push_to_its_own_repository_and_write_its_own_parameter() -> None:
    for role in properties("Build", "AWS::IAM::Role"):
        assert "ManagedPolicyArns" not in role
        (policy,) = role["Policies"]
        everywhere = [
            one["Action"] for one in policy["PolicyDocument"]["Statement"] if one["Resource"] == "*"
        ]
        assert everywhere == ["ecr:GetAuthorizationToken"]
        actions = [one["Action"] for one in policy["PolicyDocument"]["Statement"]]
        assert "*" not in json.dumps(actions)


def test_commands_to_upload_and_to_start_are_outputs() -> None:
    outputs = template("Build")["Outputs"]

    assert "sources/neuronfleet.zip" in json.dumps(outputs["Upload"])
    assert len([name for name in outputs if name.startswith("Start")]) == 4
