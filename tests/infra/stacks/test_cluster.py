import json

import pytest

from neuronfleet.infra.cluster import versions
from neuronfleet.infra.settings.versions import KUBERNETES
from neuronfleet.serving.api.problems import SpecError
from tests.infra.stacks.base import OFFICE, only, properties, resources, template

CLUSTER = "AWS::EKS::Cluster"
GROUP = "AWS::EKS::Nodegroup"
ENTRY = "AWS::EKS::AccessEntry"


def test_without_addresses_there_is_no_public_endpoint() -> None:
    reach = only("Cluster", CLUSTER)["ResourcesVpcConfig"]

    assert (reach["EndpointPublicAccess"], reach["EndpointPrivateAccess"]) == (False, True)
    assert "PublicAccessCidrs" not in reach


def test_a_public_endpoint_is_open_to_the_named_addresses_alone() -> None:
    reach = only("Cluster", CLUSTER, "office")["ResourcesVpcConfig"]

    assert (reach["EndpointPublicAccess"], reach["EndpointPrivateAccess"]) == (True, True)
    assert reach["PublicAccessCidrs"] == [OFFICE]


def test_the_control_plane_logs_all_five_and_its_log_is_kept_for_a_time() -> None:
    types = only("Cluster", CLUSTER)["Logging"]["ClusterLogging"]["EnabledTypes"]
    (log,) = resources("Cluster", "AWS::Logs::LogGroup").values()

    assert {one["Type"] for one in types} == {
        "api", "audit", "authenticator", "controllerManager", "scheduler",
    }  # fmt: skip
    assert log["Properties"]["LogGroupName"] == "/aws/eks/neuronfleet/cluster"
    assert log["Properties"]["RetentionInDays"] == 90
    assert log["DeletionPolicy"] == "RetainExceptOnCreate"


def test_the_log_is_there_before_the_cluster_would_make_its_own() -> None:
    (cluster,) = resources("Cluster", CLUSTER).values()
    (log,) = resources("Cluster", "AWS::Logs::LogGroup")

    assert log in cluster["DependsOn"]


def test_secrets_are_encrypted_by_a_key_of_the_account_that_rotates() -> None:
    (encryption,) = only("Cluster", CLUSTER)["EncryptionConfig"]
    (key,) = resources("Cluster", "AWS::KMS::Key")

    assert encryption["Resources"] == ["secrets"]
    assert encryption["Provider"]["KeyArn"]["Fn::GetAtt"] == [key, "Arn"]
    assert only("Cluster", "AWS::KMS::Key")["EnableKeyRotation"] is True


def test_access_is_by_entries_and_the_creator_has_none() -> None:
    assert only("Cluster", CLUSTER)["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }


def test_each_admin_has_an_entry_and_so_has_what_applies_manifests() -> None:
    entries = properties("Cluster", ENTRY, "two-admins")
    principals = json.dumps([one["PrincipalArn"] for one in entries])

    assert len(entries) == 3
    assert ":role/ClusterAdmin" in principals
    assert ":user/eve" in principals
    assert "KubectlHandlerServiceRole" in principals


def test_an_admins_entry_stays_when_another_admin_comes() -> None:
    assert set(resources("Cluster", ENTRY)) < set(resources("Cluster", ENTRY, "two-admins"))


def test_every_addon_is_of_a_pinned_build_and_the_self_managed_ones_are_left_out() -> None:
    addons = {one["AddonName"]: one for one in properties("Cluster", "AWS::EKS::Addon")}

    assert set(addons) == {"coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"}
    assert all("-eksbuild." in one["AddonVersion"] for one in addons.values())
    assert addons["kube-proxy"]["AddonVersion"].startswith("v1.35.")
    assert only("Cluster", CLUSTER)["BootstrapSelfManagedAddons"] is False


def test_nodes_wait_for_their_network_and_dns_waits_for_nodes() -> None:
    (group,) = resources("Cluster", GROUP).values()
    addons = {
        one["Properties"]["AddonName"]: one
        for one in resources("Cluster", "AWS::EKS::Addon").values()
    }

    assert len(group["DependsOn"]) == 3
    assert [name for name in resources("Cluster", GROUP) if name in addons["coredns"]["DependsOn"]]


def test_the_cni_plugin_has_rights_of_its_own_that_nodes_do_not_have() -> None:
    (cni,) = (
        one for one in properties("Cluster", "AWS::EKS::Addon") if one["AddonName"] == "vpc-cni"
    )
    holders = [
        name
        for name, role in resources("Cluster", "AWS::IAM::Role").items()
        if "AmazonEKS_CNI_Policy" in json.dumps(role)
    ]

    (association,) = cni["PodIdentityAssociations"]
    assert [association["RoleArn"]["Fn::GetAtt"][0]] == holders
    assert "Nodes" not in holders[0]


def test_system_nodes_want_imds_v2_within_one_hop_and_encrypted_volumes() -> None:
    data = only("Cluster", "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]

    assert data["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpPutResponseHopLimit": 1,
        "HttpTokens": "required",
    }
    (root,) = data["BlockDeviceMappings"]
    assert (root["Ebs"]["Encrypted"], root["Ebs"]["VolumeType"]) == (True, "gp3")
    assert "KeyName" not in data


def test_system_nodes_can_be_reached_by_session_manager_and_not_by_ssh() -> None:
    roles = json.dumps(properties("Cluster", "AWS::IAM::Role"))

    assert "AmazonSSMManagedInstanceCore" in roles
    assert "RemoteAccess" not in only("Cluster", GROUP)
    assert "StartPortForwardingSessionToRemoteHost" in json.dumps(template("Cluster")["Outputs"])


def test_system_nodes_have_all_three_sizes_and_are_not_forced() -> None:
    assert only("Cluster", GROUP)["ScalingConfig"] == {
        "MinSize": 2, "DesiredSize": 2, "MaxSize": 4,
    }  # fmt: skip
    assert "ForceUpdateEnabled" not in only("Cluster", GROUP)


def test_manifests_are_applied_from_inside_the_private_subnets() -> None:
    functions = properties("Cluster", "AWS::Lambda::Function")

    assert functions
    assert all(len(one["VpcConfig"]["SubnetIds"]) == 3 for one in functions)


def test_of_a_standing_cluster_only_what_applies_manifests_is_made() -> None:
    made = {one["Type"] for one in template("Cluster", "standing-cluster")["Resources"].values()}

    assert made == {
        "AWS::EKS::AccessEntry",
        "AWS::IAM::Policy",
        "AWS::IAM::Role",
        "AWS::Lambda::Function",
        "AWS::Lambda::LayerVersion",
    }
    assert only("Cluster", ENTRY, "standing-cluster")["ClusterName"] == "there"


def test_every_kubernetes_that_settings_may_name_has_addons_and_a_near_kubectl() -> None:
    assert set(versions.KNOWN) == set(KUBERNETES)
    for kubernetes, found in versions.KNOWN.items():
        minor, kubectl = (int(one.split(".")[1]) for one in (kubernetes, found.kubectl))
        assert abs(minor - kubectl) <= 1
        assert found.kube_proxy.startswith(f"v{kubernetes}.")


def test_an_unknown_kubernetes_is_refused_by_name() -> None:
    with pytest.raises(SpecError, match=r"cluster\.version = 1\.20, must be one of 1\.33"):
        versions.of("1.20")
