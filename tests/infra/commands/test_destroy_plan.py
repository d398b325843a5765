"""How a deployment ends: what goes, what stays, and in which order."""

import json
from pathlib import Path
from typing import Any

import pytest

from neuronfleet.infra.commands import assembly
from neuronfleet.infra.commands.destroy_plan import DestroyPlan, destroy_plan, document
from neuronfleet.infra.settings import parse
from neuronfleet.serving.api.problems import SpecError
from tests import schema
from tests.infra.commands.accounts import settings

EXAMPLE = Path(__file__).parents[3] / "examples/infra/us-east-2.yaml"


def example(*stacks: assembly.SynthesisedStack) -> DestroyPlan:
    return destroy_plan(parse.load(EXAMPLE), "infra.yaml", stacks)


def commands(plan: DestroyPlan) -> list[str]:
    return [command for step in plan.steps for command in step.commands]


def test_stacks_go_last_made_first_and_every_one_is_named() -> None:
    names = [stack.id.removeprefix("neuronfleet-") for stack in example().stacks]

    assert names[0] == "Observability"
    assert names[-2:] == ["Data", "Network"]
    assert names.index("Addons") < names.index("Pool-trn1-efa") < names.index("Cluster")
    assert "Serving" not in names


def test_serving_is_there_once_every_image_has_its_digest() -> None:
    built = settings(
        ("pools:", f"images: [{{name: controller, digest: 'sha256:{'0' * 64}'}}]\npools:")
    )

    assert destroy_plan(built, "infra.yaml").stacks[0].id == "fleet-Serving"


def test_karpenter_ends_its_nodes_before_it_goes_itself() -> None:
    found = commands(example())

    assert found.index("kubectl delete nodepools --all") < next(
        at for at, command in enumerate(found) if command.startswith("npx cdk destroy")
    )


def test_protection_is_lifted_for_the_data_alone_and_last() -> None:
    *_, lift, last = commands(example())

    assert "--no-enable-termination-protection --stack-name neuronfleet-Data" in lift
    assert last == "npx cdk destroy --exclusively neuronfleet-Data -c settings=infra.yaml"


def test_nothing_but_what_is_said_to_deletes_data() -> None:
    plan = example()
    deleting = [command for step in plan.for_good for command in step.commands]

    assert not [c for c in commands(plan) if "s3" in c or "ecr" in c or "kms" in c]
    assert [c for c in deleting if c.startswith("aws kms schedule-key-deletion")]


def test_data_stays_at_a_price_by_its_size_and_the_key_by_the_month() -> None:
    kept = {one.what: one for one in example().kept}

    assert kept["KMS key of data"].usd_per_month == 1.0
    assert kept["bucket of weights"].usd_per_month is None
    assert kept["bucket of weights"].price == "$0.023 a GB-month, of what it holds"
    assert "repository neuronfleet/controller" in kept


def test_a_block_is_said_to_be_paid_to_its_end_and_a_reservation_until_it_is_cancelled() -> None:
    assert "capacity block cr-0123456789abcdef0: paid to its end" in example().stays[0]

    held = settings(
        ("capacity: capacity-block", "capacity: reserved"), ("trn2.48xlarge", "trn1.32xlarge")
    )

    assert "cancel-capacity-reservation" in destroy_plan(held, "infra.yaml").stays[0]


def write_assembly(folder: Path, stacks: dict[str, dict[str, Any]]) -> None:
    artifacts: dict[str, Any] = {"Tree": {"type": "cdk:tree"}}
    for name, stack in stacks.items():
        (folder / f"{name}.json").write_text(json.dumps({"Resources": stack["resources"]}))
        artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "dependencies": [*stack.get("needs", ()), f"{name}.assets"],
            "properties": {
                "templateFile": f"{name}.json",
                "terminationProtection": stack.get("protected", False),
            },
        }
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))


def bucket(policy: str | None = None) -> dict[str, str]:
    return {"Type": "AWS::S3::Bucket"} | ({"DeletionPolicy": policy} if policy else {})


def test_an_assembly_tells_exactly_what_goes_what_stays_and_in_which_order(tmp_path: Path) -> None:
    write_assembly(
        tmp_path,
        {
            "c-Cluster": {
                "resources": {"C": {"Type": "AWS::EKS::Cluster"}, "X": bucket()},
                "needs": ["c-Data"],
            },
            "c-Data": {
                "resources": {
                    "W": bucket("Retain"),
                    "K": {"Type": "AWS::KMS::Key", "DeletionPolicy": "Retain"},
                    "A": {"Type": "AWS::KMS::Alias", "DeletionPolicy": "Retain"},
                    "P": {"Type": "AWS::SSM::Parameter"},
                    "S": {"Type": "AWS::APS::Workspace", "DeletionPolicy": "Retain"},
                    "U": {"Type": "AWS::Odd::Thing", "DeletionPolicy": "Snapshot"},
                    "M": {"Type": "AWS::CDK::Metadata"},
                },
                "protected": True,
            },
        },
    )

    plan = example(*assembly.read(tmp_path))

    assert [stack.id for stack in plan.stacks] == ["c-Cluster", "c-Data"]
    assert plan.stacks[0].what == "2 resources: 1 EKS::Cluster, 1 S3::Bucket"
    assert plan.stacks[1].what == "1 resources: 1 SSM::Parameter"
    assert plan.stacks[1].is_protected
    assert {one.what: one.usd_per_month for one in plan.kept} == {
        "S3::Bucket W": None,
        "KMS::Key K": 1.0,
        "KMS::Alias A": 0.0,
        "APS::Workspace S": None,
        "Odd::Thing U": None,
    }
    assert {one.what: one.price for one in plan.kept}["Odd::Thing U"] == "unknown"


@pytest.mark.parametrize("text", ["{}", "[]", "not json", '{"artifacts": {"a": {}}}'])
def test_a_folder_that_is_no_assembly_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)

    with pytest.raises(SpecError, match="must be a folder that `npx cdk synth` wrote"):
        assembly.read(tmp_path)


def test_the_document_is_as_its_schema_says() -> None:
    found = document(example())

    schema.check(found, "infra-destroy-plan")
    assert found["deletes_data"]
