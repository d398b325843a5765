"""The judge sees what CloudFormation would replace: planted cases, each by its own way."""

from typing import Any

from tests.infra.updates.judge import Change, Fate, changes, harmful

REGION = "us-east-2"


def bucket(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": properties}


def template(outputs: dict[str, Any] | None = None, **resources: Any) -> dict[str, Any]:
    return {"Resources": resources, "Outputs": outputs or {}}


def judged(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    return changes({"Data": before}, {"Data": after}, REGION)


def fates(found: list[Change]) -> dict[str, Fate]:
    return {change.logical_id: change.fate for change in found}


def test_nothing_changes_when_nothing_changed() -> None:
    data = template(Weights=bucket(BucketName="weights"))

    assert judged(data, data) == []


def test_another_bucket_name_replaces_the_bucket() -> None:
    [change] = judged(
        template(Weights=bucket(BucketName="weights")), template(Weights=bucket(BucketName="other"))
    )

    assert (change.fate, change.because) == (Fate.REPLACED, ("BucketName",))
    assert harmful([change]) == [change]


def test_another_setting_of_a_bucket_updates_it_in_place() -> None:
    versioned = bucket(VersioningConfiguration={"Status": "Enabled"})

    [change] = judged(template(Weights=bucket()), template(Weights=versioned))

    assert (change.fate, change.because) == (Fate.UPDATED, ("VersioningConfiguration",))
    assert harmful([change]) == []


def test_a_key_that_leaves_the_template_is_deleted_unless_retained() -> None:
    key = {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {}}}
    retained = key | {"DeletionPolicy": "Retain"}

    found = judged(template(Lost=key, Kept=retained), template())

    assert fates(found) == {"Lost": Fate.DELETED, "Kept": Fate.RELEASED}


def test_another_logical_id_is_a_deletion_and_an_addition() -> None:
    found = judged(template(Weights=bucket()), template(Models=bucket()))

    assert fates(found) == {"Weights": Fate.DELETED, "Models": Fate.ADDED}
    assert [change.logical_id for change in harmful(found)] == ["Weights"]


def test_a_stack_that_left_the_app_is_left_alone() -> None:
    found = changes({"Pool": template(Weights=bucket())}, {}, REGION)

    assert fates(found) == {"Weights": Fate.LEFT}


def test_nested_create_only_properties_count_and_their_neighbours_do_not() -> None:
    def cluster(**config: Any) -> dict[str, Any]:
        return {
            "Type": "AWS::EKS::Cluster",
            "Properties": {"Name": "c", "KubernetesNetworkConfig": config},
        }

    moved = judged(
        template(C=cluster(ServiceIpv4Cidr="172.20.0.0/16")),
        template(C=cluster(ServiceIpv4Cidr="10.100.0.0/16")),
    )
    balanced = judged(
        template(C=cluster(ServiceIpv4Cidr="172.20.0.0/16")),
        template(
            C=cluster(ServiceIpv4Cidr="172.20.0.0/16", ElasticLoadBalancing={"Enabled": "true"})
        ),
    )

    assert fates(moved) == {"C": Fate.REPLACED}
    assert fates(balanced) == {"C": Fate.UPDATED}


def test_a_conditional_replacement_is_taken_for_one() -> None:
    def rule(bus: str) -> dict[str, Any]:
        return {"Type": "AWS::Events::Rule", "Properties": {"Name": "r", "EventBusName": bus}}

    assert fates(judged(template(R=rule("a")), template(R=rule("b")))) == {"R": Fate.REPLACED}


def node_group(role: Any, version: Any = "1") -> dict[str, Any]:
    return {
        "Type": "AWS::EKS::Nodegroup",
        "Properties": {
            "ClusterName": "c",
            "NodeRole": role,
            "Subnets": ["subnet-1"],
            "LaunchTemplate": {"Id": "lt-1", "Version": version},
        },
    }


def role(name: str) -> dict[str, Any]:
    return {"Type": "AWS::IAM::Role", "Properties": {"RoleName": name}}


def test_what_refers_to_a_replaced_resource_in_a_fixed_property_is_replaced_too() -> None:
    group = node_group({"Fn::GetAtt": ["Role", "Arn"]})

    found = judged(template(Role=role("a"), Group=group), template(Role=role("b"), Group=group))

    assert fates(found) == {"Role": Fate.REPLACED, "Group": Fate.REPLACED}


def test_replacements_are_followed_over_stacks_by_weak_and_by_strong_reference() -> None:
    outputs = {
        "Weak": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}},
        "Strong": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}, "Export": {"Name": "role"}},
    }
    pool = template(
        Weak=node_group({"Fn::GetStackOutput": {"StackName": "Data", "OutputName": "Weak"}}),
        Strong=node_group({"Fn::ImportValue": "role"}),
    )

    found = changes(
        {"Data": template(outputs, Role=role("a")), "Pool": pool},
        {"Data": template(outputs, Role=role("b")), "Pool": pool},
        REGION,
    )

    assert set(fates(found).values()) == {Fate.REPLACED}
    assert len(found) == 3


def test_a_new_version_of_a_launch_template_rolls_its_node_group() -> None:
    def launch(size: int) -> dict[str, Any]:
        data = {"BlockDeviceMappings": [{"Ebs": {"VolumeSize": size}}]}
        return {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}}

    def group(most: int) -> dict[str, Any]:
        made = node_group("arn", {"Fn::GetAtt": ["Template", "LatestVersionNumber"]})
        made["Properties"]["ScalingConfig"] = {"MaxSize": most}
        return made

    found = judged(
        template(Template=launch(200), Group=group(2)),
        template(Template=launch(500), Group=group(3)),
    )

    assert fates(found) == {"Template": Fate.UPDATED, "Group": Fate.UPDATED}
    assert found[0].because == ("LaunchTemplate", "ScalingConfig")


def test_a_release_under_another_name_replaces_it() -> None:
    def chart(release: str, version: str) -> dict[str, Any]:
        properties = {"Release": release, "Version": version, "Chart": "neuron-helm-chart"}
        return {"Type": "Custom::AWSCDK-EKS-HelmChart", "Properties": properties}

    assert fates(judged(template(C=chart("a", "1")), template(C=chart("b", "1")))) == {
        "C": Fate.REPLACED
    }
    assert fates(judged(template(C=chart("a", "1")), template(C=chart("a", "2")))) == {
        "C": Fate.UPDATED
    }
