"""Empties a VPC's default security group, for CloudFormation; runs in Lambda.

`cfnresponse` is there for inline functions only.
"""

from typing import Any

_RULES = {"IpPermissions": "ingress", "IpPermissionsEgress": "egress"}


def handler(event: dict[str, Any], context: object) -> None:
    """Answer CloudFormation, whatever happens: it would wait an hour otherwise."""
    import cfnresponse  # type: ignore[import-not-found]

    group = event["ResourceProperties"]["DefaultSecurityGroupId"]
    try:
        if event["RequestType"] != "Delete":
            import boto3

            empty(boto3.client("ec2"), group)
        answer, said = cfnresponse.SUCCESS, {}
    except Exception as error:
        answer, said = cfnresponse.FAILED, {"Error": str(error)}
    cfnresponse.send(event, context, answer, said, f"{group}-emptied", reason=str(said))


def empty(ec2: Any, group: str) -> None:
    """Revoke every rule of a group."""
    (found,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    for key, way in _RULES.items():
        if found[key]:
            revoke = getattr(ec2, f"revoke_security_group_{way}")
            revoke(GroupId=group, IpPermissions=found[key])
