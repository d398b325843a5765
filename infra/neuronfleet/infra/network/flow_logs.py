"""Who talked to whom, and what was refused."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct


class FlowLogs(Construct):
    """Of the whole VPC, in CloudWatch; they outlive it."""

    def __init__(self, scope: Construct, id: str, *, vpc_id: str, days: int) -> None:
        super().__init__(scope, id)
        group = logs.CfnLogGroup(self, "Log", retention_in_days=days)
        group.apply_removal_policy(RemovalPolicy.RETAIN)
        write = iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            resources=[group.attr_arn],
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com"),
            inline_policies={"Own": iam.PolicyDocument(statements=[write])},
        )
        ec2.CfnFlowLog(
            self,
            "FlowLog",
            resource_id=vpc_id,
            resource_type="VPC",
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_group_name=group.ref,
            deliver_logs_permission_arn=role.role_arn,
        )
