"""`cdk bootstrap` and `cdk deploy --all` of the full example, and what they made.

Created for real in moto: what has an API there is described with boto3; the rest was checked
against AWS's schemas and is read from the ledger. Updates, Helm and Kubernetes do not run here.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from neuronfleet.infra.settings.model import Owner, Pool
from tests.infra import examples
from tests.infra.deploy.cloud import ACCOUNT, Cloud, Emulators

SETTINGS = examples.settings(examples.FULL)
BLOCK = next(pool for pool in SETTINGS.pools if pool.block is not None)
EFA = next(pool for pool in SETTINGS.pools if pool.efa and pool.block is None)
GROUPS = [pool for pool in SETTINGS.pools if pool.owner is Owner.NODE_GROUP]
CHARTS = "Custom::AWSCDK-EKS-HelmChart"
OBJECTS = "Custom::AWSCDK-EKS-KubernetesResource"


@pytest.fixture(scope="module")
def account(emulators: Emulators, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """An account with every stack of the full example, deployed once for the tests here."""
    assembly = str(examples.first_assembly(examples.FULL))
    with emulators.cloud(tmp_path_factory.mktemp("whole"), SETTINGS.region) as cloud:
        place = f"aws://{ACCOUNT}/{SETTINGS.region}"
        prepared = cloud.cdk("bootstrap", place, "--app", assembly)
        assert prepared.status == 0, prepared.text[-3000:]
        deployed = cloud.cdk("deploy", "--all", "--require-approval", "never", "--app", assembly)
        assert deployed.status == 0, deployed.text[-3000:]
        yield cloud


def node_group(account: Cloud, pool: Pool) -> dict[str, Any]:
    eks = account.client("eks")
    names = eks.list_nodegroups(clusterName=SETTINGS.name)["nodegroups"]
    [name] = [name for name in names if name.endswith(pool.name)]
    found: dict[str, Any] = eks.describe_nodegroup(clusterName=SETTINGS.name, nodegroupName=name)[
        "nodegroup"
    ]
    return found


def launch(account: Cloud, group: dict[str, Any]) -> dict[str, Any]:
    template = group["launchTemplate"]
    [found] = account.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["id"], Versions=[template["version"]]
    )["LaunchTemplateVersions"]
    data: dict[str, Any] = found["LaunchTemplateData"]
    return data


def zone_ids(account: Cloud, subnets: list[str]) -> set[str]:
    found = account.client("ec2").describe_subnets(SubnetIds=subnets)["Subnets"]
    return {subnet["AvailabilityZoneId"] for subnet in found}


def test_every_stack_is_complete_and_no_resource_was_skipped(account: Cloud) -> None:
    templates = examples.templates(examples.first_assembly(examples.FULL))
    wanted = {
        (stack, logical_id)
        for stack, template in templates.items()
        for logical_id, resource in template["Resources"].items()
        if resource["Type"] != "AWS::CDK::Metadata"
    }

    stacks = account.stacks()

    assert {name: stacks.get(name) for name in templates} == dict.fromkeys(
        templates, "CREATE_COMPLETE"
    )
    assert {(made.stack, made.logical_id) for made in account.created()} >= wanted


def test_the_app_has_each_of_its_stacks(account: Cloud) -> None:
    pools = {f"Pool-{pool.name}" for pool in GROUPS}
    parts = {"Network", "Data", "Build", "Cluster", "Addons", "Observability", "Serving"} | pools

    assert set(account.stacks()) == {"CDKToolkit"} | {f"{SETTINGS.name}-{part}" for part in parts}


def test_what_holds_data_cannot_be_deleted_by_accident(account: Cloud) -> None:
    [data] = account.client("cloudformation").describe_stacks(StackName=f"{SETTINGS.name}-Data")[
        "Stacks"
    ]

    assert data["EnableTerminationProtection"] is True


def test_nodes_stand_in_private_subnets_of_the_settings_zones(account: Cloud) -> None:
    ec2 = account.client("ec2")
    made = [made.ref for made in account.created("AWS::EC2::Subnet")]
    subnets = ec2.describe_subnets(SubnetIds=made)["Subnets"]
    private = [subnet for subnet in subnets if not subnet["MapPublicIpOnLaunch"]]

    assert {subnet["AvailabilityZoneId"] for subnet in private} == set(SETTINGS.zones)
    assert {subnet["State"] for subnet in subnets} == {"available"}


def test_the_api_server_is_private_encrypted_and_logged(account: Cloud) -> None:
    [name] = account.client("eks").list_clusters()["clusters"]
    cluster = account.client("eks").describe_cluster(name=name)["cluster"]
    config = cluster["resourcesVpcConfig"]

    assert (name, cluster["version"]) == (SETTINGS.name, "1.35")
    assert (config["endpointPublicAccess"], config["endpointPrivateAccess"]) == (False, True)
    [encryption] = cluster["encryptionConfig"]
    keys = {key["KeyArn"] for key in account.client("kms").list_keys()["Keys"]}
    assert encryption["resources"] == ["secrets"]
    assert encryption["provider"]["keyArn"] in keys
    [logged] = cluster["logging"]["clusterLogging"]
    assert set(logged["types"]) == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }


def test_access_is_by_entries_alone_and_the_admins_have_one(account: Cloud) -> None:
    [cluster] = account.created("AWS::EKS::Cluster")
    entries = {
        entry.properties["PrincipalArn"]: entry.properties
        for entry in account.created("AWS::EKS::AccessEntry")
    }

    assert cluster.properties["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }
    [policy] = entries[f"arn:aws:iam::{ACCOUNT}:role/ClusterAdmin"]["AccessPolicies"]
    assert policy["PolicyArn"].endswith("/AmazonEKSClusterAdminPolicy")


def test_addons_and_charts_are_pinned(account: Cloud) -> None:
    addons = account.created("AWS::EKS::Addon")
    charts = [made.properties for made in account.created(CHARTS)]

    assert {addon.properties["AddonName"] for addon in addons} >= {
        "coredns",
        "eks-pod-identity-agent",
        "kube-proxy",
        "vpc-cni",
    }
    assert all(addon.properties.get("AddonVersion", "").startswith("v") for addon in addons)
    assert {chart["Release"] for chart in charts} >= {"karpenter", "neuron-helm-chart"}
    assert not [made for made in charts if "latest" in json.dumps(made)]


def test_karpenter_is_given_a_pool_and_a_class_for_each_of_its_pools(account: Cloud) -> None:
    manifests = [
        item
        for made in account.created(OBJECTS)
        for item in json.loads(made.properties["Manifest"])
    ]
    owned = {pool.name for pool in SETTINGS.pools if pool.owner is Owner.KARPENTER}

    for kind in ("NodePool", "EC2NodeClass"):
        assert {m["metadata"]["name"] for m in manifests if m["kind"] == kind} == owned


def test_the_block_s_group_is_sold_as_a_block_in_the_block_s_zone(account: Cloud) -> None:
    group = node_group(account, BLOCK)

    assert BLOCK.block is not None
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert group["amiType"] == "AL2023_x86_64_NEURON"
    assert len(group["subnets"]) == 1
    assert zone_ids(account, group["subnets"]) == {BLOCK.block.zone}
    assert group["scalingConfig"]["minSize"] == 0
    assert group["scalingConfig"].get("desiredSize", 0) == 0


def test_the_block_s_nodes_are_launched_into_the_reservation_with_all_interfaces(
    account: Cloud,
) -> None:
    data = launch(account, node_group(account, BLOCK))
    kinds = Counter(interface["InterfaceType"] for interface in data["NetworkInterfaces"])
    places = {(one["NetworkCardIndex"], one["DeviceIndex"]) for one in data["NetworkInterfaces"]}

    assert BLOCK.block is not None
    assert kinds == {"interface": 1, "efa-only": 16}
    assert len(places) == 17
    assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert data["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": BLOCK.block.id}
    }
    assert "Placement" not in data


def test_fixed_efa_nodes_stand_close_where_ec2_offers_their_type(account: Cloud) -> None:
    group = node_group(account, EFA)
    data = launch(account, group)
    kinds = Counter(interface["InterfaceType"] for interface in data["NetworkInterfaces"])
    offered = account.client("ec2").describe_instance_type_offerings(
        LocationType="availability-zone-id",
        Filters=[{"Name": "instance-type", "Values": [EFA.instance_type]}],
    )["InstanceTypeOfferings"]
    [placement] = account.created("AWS::EC2::PlacementGroup")

    assert kinds["efa-only"] == 8
    assert zone_ids(account, group["subnets"]) <= {offer["Location"] for offer in offered}
    assert data["Placement"] == {"GroupName": placement.ref}
    assert placement.properties["Strategy"] == "cluster"


@pytest.mark.parametrize("pool", GROUPS, ids=lambda pool: pool.name)
def test_no_node_gives_pods_its_credentials_or_has_a_plain_disk(pool: Pool, account: Cloud) -> None:
    data = launch(account, node_group(account, pool))
    metadata = data["MetadataOptions"]

    assert (metadata["HttpTokens"], metadata["HttpPutResponseHopLimit"]) == ("required", 1)
    assert all(device["Ebs"]["Encrypted"] for device in data["BlockDeviceMappings"])
    assert "KeyName" not in data


def test_the_block_is_left_well_before_ec2_takes_it(account: Cloud) -> None:
    scheduler = account.client("scheduler")
    listed = scheduler.list_schedules()["Schedules"]
    found = [scheduler.get_schedule(Name=one["Name"], GroupName=one["GroupName"]) for one in listed]
    by_size = {
        json.loads(one["Target"]["Input"])["ScalingConfig"]["DesiredSize"]: one for one in found
    }

    assert BLOCK.block is not None
    assert BLOCK.block.starts_at is not None
    assert BLOCK.block.ends_at is not None
    assert set(by_size) == {0, BLOCK.most}
    grown, gone = by_size[BLOCK.most], by_size[0]
    assert grown["StartDate"] >= BLOCK.block.starts_at
    assert grown["EndDate"] <= gone["StartDate"]
    assert BLOCK.block.ends_at - gone["StartDate"] > timedelta(minutes=40)


def test_models_and_graphs_are_kept_encrypted_versioned_and_shut(account: Cloud) -> None:
    s3 = account.client("s3")
    own = [made.ref for made in account.created("AWS::S3::Bucket") if made.stack != "CDKToolkit"]

    assert len(own) >= 3
    for name in own:
        block = s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
        policy = s3.get_bucket_policy(Bucket=name)["Policy"]
        assert all(block.values())
        assert "aws:SecureTransport" in policy
    keyed = [name for name in own if "logs" not in name]
    for name in keyed:
        [rule] = s3.get_bucket_encryption(Bucket=name)["ServerSideEncryptionConfiguration"]["Rules"]
        assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
        assert s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"


def test_images_are_immutable_and_scanned(account: Cloud) -> None:
    listed = account.client("ecr").describe_repositories()["repositories"]
    own = {repository["repositoryName"]: repository for repository in listed}
    images = {f"{SETTINGS.name}/{image.name}" for image in SETTINGS.images}

    assert set(own) >= images
    for name in images:
        assert own[name]["imageTagMutability"] == "IMMUTABLE"
        assert own[name]["imageScanningConfiguration"] == {"scanOnPush": True}
        assert own[name]["encryptionConfiguration"]["encryptionType"] == "KMS"


def test_every_image_has_a_build(account: Cloud) -> None:
    projects = account.client("codebuild").list_projects()["projects"]

    assert len(projects) >= len(SETTINGS.images)


def test_metrics_have_a_workspace_with_the_projects_rules(account: Cloud) -> None:
    amp = account.client("amp")
    [workspace] = amp.list_workspaces()["workspaces"]
    [namespace] = amp.list_rule_groups_namespaces(workspaceId=workspace["workspaceId"])[
        "ruleGroupsNamespaces"
    ]
    data = amp.describe_rule_groups_namespace(
        workspaceId=workspace["workspaceId"], name=namespace["name"]
    )["ruleGroupsNamespace"]["data"]
    [scraper] = account.created("AWS::APS::Scraper")

    assert data == (examples.FOLDER.parents[1] / "monitoring/rules/fleet.yml").read_bytes()
    destination = scraper.properties["Destination"]["AmpConfiguration"]["WorkspaceArn"]
    assert destination == workspace["arn"]


def test_alarms_and_the_budget_tell_somebody(account: Cloud) -> None:
    topics = {topic["TopicArn"] for topic in account.client("sns").list_topics()["Topics"]}
    alarms = account.client("cloudwatch").describe_alarms()["MetricAlarms"]
    budgets = account.client("budgets").describe_budgets(AccountId=ACCOUNT)["Budgets"]

    assert alarms
    assert all(set(alarm["AlarmActions"]) <= topics and alarm["AlarmActions"] for alarm in alarms)
    assert [float(budget["BudgetLimit"]["Amount"]) for budget in budgets] == [
        SETTINGS.observability.budget_usd_per_month
    ]


def test_no_group_is_open_to_the_world(account: Cloud) -> None:
    groups = account.client("ec2").describe_security_groups()["SecurityGroups"]
    made = {made.ref for made in account.created("AWS::EC2::SecurityGroup")}
    sources = {
        block["CidrIp"]
        for group in groups
        if group["GroupId"] in made
        for permission in group["IpPermissions"]
        for block in permission["IpRanges"]
    }

    assert "0.0.0.0/0" not in sources
