"""Who may do what in the cluster: access entries, and no other way."""

import re

from aws_cdk import Aws
from aws_cdk import aws_eks as eks
from constructs import Construct

_ADMIN = "AmazonEKSClusterAdminPolicy"


def administer(scope: Construct, id: str, *, cluster: str, principal: str) -> eks.CfnAccessEntry:
    """Let a principal administer the cluster.

    Args:
        scope: Where the entry stands.
        id: Its name there.
        cluster: Name of the cluster.
        principal: ARN of a role or user.
    """
    policy = eks.CfnAccessEntry.AccessPolicyProperty(
        policy_arn=f"arn:{Aws.PARTITION}:eks::aws:cluster-access-policy/{_ADMIN}",
        access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
    )
    return eks.CfnAccessEntry(
        scope,
        id,
        cluster_name=cluster,
        principal_arn=principal,
        type="STANDARD",
        access_policies=[policy],
    )


def arn(principal: str) -> str:
    """A principal's ARN; one without account is of the account that is deployed to."""
    if principal.startswith("arn:"):
        return principal
    return f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:{principal}"


def construct_id(principal: str) -> str:
    """Of the principal alone, so that another order of admins changes no entry."""
    return "Admin-" + re.sub(r"[^0-9A-Za-z]+", "-", principal.removeprefix("arn:"))
