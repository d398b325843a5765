"""The group that EC2 puts on whatever names none: it is left without a rule."""

from importlib import resources

from aws_cdk import Aws, CfnResource, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from neuronfleet.infra import nag

RUNTIME = "python3.14"
_LOG_DAYS = 30
_TIMEOUT_S = 60


class LockedDefaultGroup(Construct):
    """CloudFormation cannot take rules from a group that it did not make, so a function does."""

    def __init__(self, scope: Construct, id: str, *, group_id: str) -> None:
        super().__init__(scope, id)
        log = logs.CfnLogGroup(self, "Log", retention_in_days=_LOG_DAYS)
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        function = self._function(self._role(group_id, log), log)
        CfnResource(
            self,
            "Rules",
            type="Custom::VpcRestrictDefaultSG",
            properties={
                "ServiceToken": function.attr_arn,
                "ServiceTimeout": _TIMEOUT_S,
                "DefaultSecurityGroupId": group_id,
            },
        )

    def _role(self, group_id: str, log: logs.CfnLogGroup) -> iam.Role:
        arn = Stack.of(self).format_arn(
            service="ec2", resource="security-group", resource_name=group_id
        )
        revoke = iam.PolicyStatement(
            actions=["ec2:RevokeSecurityGroupIngress", "ec2:RevokeSecurityGroupEgress"],
            resources=[arn],
        )
        # Reads of security groups cannot be limited to one.
        look = iam.PolicyStatement(actions=["ec2:DescribeSecurityGroups"], resources=["*"])
        write = iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.attr_arn]
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={"Own": iam.PolicyDocument(statements=[revoke, look, write])},
        )
        nag.acknowledge(
            role,
            "AwsSolutions-IAM5[Resource::*]",
            reason="ec2:DescribeSecurityGroups knows no narrower resource; it only reads.",
        )
        return role

    def _function(self, role: iam.Role, log: logs.CfnLogGroup) -> lambda_.CfnFunction:
        function = lambda_.CfnFunction
        source = resources.files("neuronfleet.infra.functions").joinpath("default_group.py")
        return function(
            self,
            "Function",
            description=f"Empties the default security group of a VPC in {Aws.REGION}",
            code=function.CodeProperty(zip_file=source.read_text(encoding="utf-8")),
            handler="index.handler",
            runtime=RUNTIME,
            architectures=["arm64"],
            role=role.role_arn,
            timeout=_TIMEOUT_S,
            logging_config=function.LoggingConfigProperty(log_group=log.ref, log_format="JSON"),
        )
