"""EKS: clusters and node groups are moto's; the rest is recorded, below a cluster that exists."""

import hashlib
from typing import Any

from tests.infra.deploy.emulator.registry import (
    Made,
    Refused,
    Request,
    creates,
    lower_keys,
    tags_of,
)

UNKNOWN_TO_MOTO = {
    "AWS::EKS::Cluster": {
        "AccessConfig",
        "BootstrapSelfManagedAddons",
        "DeletionProtection",
        "Force",
        "UpgradePolicy",
        "ZonalShiftConfig",
    },
    "AWS::EKS::Nodegroup": {"ForceUpdateEnabled", "NodeRepairConfig", "UpdateConfig"},
}
"""Properties that moto's API would drop or refuse; the ledger has them."""


def _parameters(request: Request) -> dict[str, Any]:
    skipped = UNKNOWN_TO_MOTO[request.type] | {"Tags", "Labels", "Logging"}
    kept = {key: value for key, value in request.properties.items() if key not in skipped}
    return {**dict(lower_keys(kept)), "tags": tags_of(request.properties)}


def _logging(properties: Any) -> dict[str, Any]:
    listed = properties.get("Logging", {}).get("ClusterLogging", {}).get("EnabledTypes", [])
    types = [entry["Type"] for entry in listed]
    return {"clusterLogging": [{"types": types, "enabled": True}]} if types else {}


def _group_id(name: str) -> str:
    return "sg-" + hashlib.sha256(name.encode()).hexdigest()[:17]


@creates("AWS::EKS::Cluster")
def cluster(request: Request) -> Made:
    """A cluster, with the security group that EKS gives it, as a group of the cluster's VPC."""
    name = request.name()
    parameters = _parameters(request) | {"name": name, "logging": _logging(request.properties)}
    subnets = parameters["resourcesVpcConfig"]["subnetIds"]
    ec2 = request.client("ec2")
    vpc = ec2.describe_subnets(SubnetIds=subnets)["Subnets"][0]["VpcId"]
    made = request.client("eks").create_cluster(**parameters)["cluster"]
    group = ec2.create_security_group(
        GroupName=f"eks-cluster-sg-{name}", Description="EKS created security group", VpcId=vpc
    )
    issuer = made["identity"]["oidc"]["issuer"]
    return Made(
        ref=name,
        attributes={
            "Arn": made["arn"],
            "CertificateAuthorityData": made["certificateAuthority"]["data"],
            "ClusterSecurityGroupId": group["GroupId"],
            "Endpoint": made["endpoint"],
            "Id": name,
            "OpenIdConnectIssuerUrl": issuer,
        },
    )


@creates("AWS::EKS::Nodegroup")
def node_group(request: Request) -> Made:
    """A node group over subnets and a launch template version that exist."""
    ec2 = request.client("ec2")
    ec2.describe_subnets(SubnetIds=request.properties["Subnets"])
    parameters = _parameters(request) | {"labels": request.properties.get("Labels", {})}
    parameters["nodegroupName"] = request.name("NodegroupName")
    sizes = request.properties.get("ScalingConfig", {})
    if 0 < len(sizes) < 3:
        raise Refused(f"ScalingConfig {sizes}: EKS creates a group of all three sizes or of none")
    if template := parameters.get("launchTemplate"):
        found = ec2.describe_launch_template_versions(
            LaunchTemplateId=template["id"], Versions=[template["version"]]
        )
        if not found["LaunchTemplateVersions"]:
            raise Refused(f"launch template {template['id']} has no version {template['version']}")
    made = request.client("eks").create_nodegroup(**parameters)["nodegroup"]
    cluster_name, name = made["clusterName"], made["nodegroupName"]
    return Made(
        ref=f"{cluster_name}/{name}",
        attributes={"Arn": made["nodegroupArn"], "Id": f"{cluster_name}/{name}"},
    )


@creates("AWS::EKS::Addon", "AWS::EKS::AccessEntry", "AWS::EKS::PodIdentityAssociation")
def of_a_cluster(request: Request) -> Made:
    """What moto has no API for: recorded, below a cluster that it does have."""
    properties = request.properties
    name = properties["ClusterName"]
    request.client("eks").describe_cluster(name=name)
    kind = request.type.rsplit("::", 1)[1].lower()
    own = {
        "AWS::EKS::Addon": properties.get("AddonName"),
        "AWS::EKS::AccessEntry": properties.get("PrincipalArn"),
        "AWS::EKS::PodIdentityAssociation": "a-" + _group_id(request.logical_id)[3:],
    }[request.type]
    for role in filter(None, (properties.get("RoleArn"), properties.get("ServiceAccountRoleArn"))):
        request.client("iam").get_role(RoleName=role.rsplit("/", 1)[1])
    arn = request.arn("eks", f"{kind}/{name}/{own}")
    if request.type == "AWS::EKS::PodIdentityAssociation":
        return Made(
            ref=arn,
            attributes={"AssociationArn": arn, "AssociationId": str(own)},
        )
    attribute = "Arn" if request.type == "AWS::EKS::Addon" else "AccessEntryArn"
    return Made(ref=f"{name}|{own}", attributes={attribute: arn})
