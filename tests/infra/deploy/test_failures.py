"""Whatever cannot be created fails the deploy, with a status that a pipeline sees.

Stock moto calls each of these stacks complete: the types and properties that it does not know it
skips, and the retry that the CLI makes of a failed request finds nothing left to do.
"""

from pathlib import Path

import pytest

from tests.infra.deploy.apps.small import Part, assemble
from tests.infra.deploy.cloud import Cloud

QUEUE = Part(type="AWS::SQS::Queue", properties={"QueueName": "good"})

WRONG = {
    "a type that nothing creates": (
        Part(type="AWS::FSx::FileSystem", properties={"FileSystemType": "LUSTRE"}),
        "there is no provider for AWS::FSx::FileSystem",
    ),
    "a property that the type does not have": (
        Part(type="AWS::SQS::Queue", properties={"VisibleTimeout": 30}),
        "'VisibleTimeout' was unexpected",
    ),
    "an exception of a provider": (
        Part(
            type="AWS::EKS::Addon",
            properties={"ClusterName": "absent", "AddonName": "coredns"},
        ),
        "No cluster found for name: absent",
    ),
    "an output that another stack does not have": (
        Part(
            type="AWS::SQS::Queue",
            properties={
                "QueueName": {"Fn::GetStackOutput": {"StackName": "First", "OutputName": "Absent"}}
            },
        ),
        "stack First has no output Absent",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_resource_that_cannot_be_created_fails_the_deploy(
    case: str, account: Cloud, tmp_path: Path
) -> None:
    part, said = WRONG[case]
    first = {"Queue": Part(type="AWS::SQS::Queue", properties={"QueueName": "first"})}
    assembly = assemble(
        tmp_path / "cdk.out",
        {"First": first, "Second": {"Queue": QUEUE, "Wrong": part}},
        outputs={"First": {"Name": "first"}},
    )

    deployed = account.cdk("deploy", "--all", "--require-approval", "never", "--app", str(assembly))

    assert deployed.status != 0
    assert said in deployed.text
    assert account.stacks() == {"First": "CREATE_COMPLETE", "Second": "ROLLBACK_COMPLETE"}
