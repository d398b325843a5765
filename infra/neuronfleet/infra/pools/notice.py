"""EC2's word on a capacity block's end, brought to the fleets that are served there.

EC2 says the end when a block is delivered and again 40 minutes before it (EC2 User Guide, Monitor
Capacity Blocks using EventBridge). Both set the same endsAt: when the pool is scaled to zero.
"""

from collections.abc import Sequence
from importlib import resources

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.pools.lifecycle import gone_before
from neuronfleet.infra.pools.rights import rights
from neuronfleet.infra.settings.model import Block
from neuronfleet.infra.stacks.facts import ClusterFacts, NetworkFacts

SOURCE = "aws.ec2"
DETAIL_TYPES = (
    "Capacity Block Reservation Delivered",
    "Capacity Block Reservation Expiration Warning",
    "Capacity Block Delivered",
    "Capacity Block Expiration Warning",
)
"""The EC2 User Guide's copies disagree about the names; an event of any of them is meant."""
RUNTIME = "python3.14"
HTTPS = 443
_TIMEOUT_S = 60
_INTERFACES = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
)


class EndNotice(Construct):
    """The rule, the function that it calls, and what the function may do in AWS and Kubernetes."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        block: Block,
        fleets: Sequence[str],
        network: NetworkFacts,
        cluster: ClusterFacts,
        undelivered: sqs.IQueue,
        log_days: int,
    ) -> None:
        """A consumer of one reservation's notices.

        Args:
            scope: Where it stands.
            id: Its name in it.
            name: Of the function, its log and its rights in the cluster.
            block: The reservation.
            fleets: namespace/name of each ServingFleet to tell.
            network: Where the cluster's private endpoint is reached from.
            cluster: Whose fleets they are.
            undelivered: Where notices go that nobody could take.
            log_days: How long its log is kept.
        """
        super().__init__(scope, id)
        self._name, self._cluster = name, cluster
        log = logs.CfnLogGroup(
            self, "Log", log_group_name=f"/aws/lambda/{name}", retention_in_days=log_days
        )
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        role = self._role(log, undelivered)
        rights(self, name=name, principal=role.role_arn, fleets=fleets, cluster=cluster)
        environment = {
            "AUTHORITY": cluster.certificate_authority,
            "CLUSTER": cluster.name,
            "ENDPOINT": cluster.endpoint,
            "FLEETS": ",".join(fleets),
            "LEAD_MINUTES": str(int(gone_before(block).total_seconds() // 60)),
            "RESERVATION": block.id,
        }
        function = self._function(role, log, environment, network)
        self._failures(function, self._rule(function, block, undelivered), undelivered)

    def _role(self, log: logs.CfnLogGroup, undelivered: sqs.IQueue) -> iam.Role:
        """Its log, its network interfaces and its failures; who it is needs no permission."""
        write = iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.attr_arn]
        )
        attach = iam.PolicyStatement(actions=[*_INTERFACES], resources=["*"])
        tell = iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[undelivered.queue_arn])
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={"Own": iam.PolicyDocument(statements=[write, attach, tell])},
        )
        nag.acknowledge(
            role,
            "AwsSolutions-IAM5[Resource::*]",
            reason="Lambda creates the interfaces: their ARNs are not known before.",
        )
        return role

    def _function(
        self,
        role: iam.Role,
        log: logs.CfnLogGroup,
        environment: dict[str, str],
        network: NetworkFacts,
    ) -> lambda_.CfnFunction:
        function = lambda_.CfnFunction
        source = resources.files("neuronfleet.infra.functions").joinpath("end_notice.py")
        return function(
            self,
            "Function",
            function_name=self._name,
            description="Sets reservation.endsAt on the fleets of a capacity block",
            code=function.CodeProperty(zip_file=source.read_text(encoding="utf-8")),
            handler="index.handler",
            runtime=RUNTIME,
            architectures=["arm64"],
            role=role.role_arn,
            memory_size=256,
            timeout=_TIMEOUT_S,
            environment=function.EnvironmentProperty(variables=environment),
            logging_config=function.LoggingConfigProperty(log_group=log.ref, log_format="JSON"),
            vpc_config=function.VpcConfigProperty(
                security_group_ids=[self._group(network)],
                subnet_ids=[subnet for _, subnet in sorted(network.subnets.items())],
            ),
        )

    def _group(self, network: NetworkFacts) -> str:
        """May reach the cluster's endpoint and nothing else; nobody reaches it."""
        endpoint = self._cluster.security_group_id
        to_endpoint = ec2.CfnSecurityGroup.EgressProperty(
            ip_protocol="tcp",
            from_port=HTTPS,
            to_port=HTTPS,
            destination_security_group_id=endpoint,
            description="The private endpoint",
        )
        group = ec2.CfnSecurityGroup(
            self,
            "Group",
            group_description=f"{self._name}: to the cluster endpoint alone",
            vpc_id=network.vpc.vpc_id,
            security_group_egress=[to_endpoint],
        )
        ec2.CfnSecurityGroupIngress(
            self,
            "Ingress",
            group_id=endpoint,
            ip_protocol="tcp",
            from_port=HTTPS,
            to_port=HTTPS,
            source_security_group_id=group.attr_group_id,
            description=self._name,
        )
        return group.attr_group_id

    def _rule(
        self, function: lambda_.CfnFunction, block: Block, undelivered: sqs.IQueue
    ) -> events.CfnRule:
        """From EC2's events on this reservation, and on no other, to the function."""
        target = events.CfnRule.TargetProperty(
            id="EndNotice",
            arn=function.attr_arn,
            dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=undelivered.queue_arn),
        )
        rule = events.CfnRule(
            self,
            "Rule",
            name=self._name,
            description=f"Start and coming end of {block.id}",
            event_pattern={
                "source": [SOURCE],
                "account": [Aws.ACCOUNT_ID],
                "detail-type": [*DETAIL_TYPES],
                "detail": {"capacity-reservation-id": [block.id]},
            },
            targets=[target],
        )
        lambda_.CfnPermission(
            self,
            "Permission",
            action="lambda:InvokeFunction",
            function_name=function.ref,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )
        return rule

    def _failures(
        self, function: lambda_.CfnFunction, rule: events.CfnRule, undelivered: sqs.IQueue
    ) -> None:
        """What the rule cannot hand over, and what the function fails at three times, is kept."""
        undelivered.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sqs:SendMessage"],
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                resources=[undelivered.queue_arn],
                conditions={"ArnEquals": {"aws:SourceArn": rule.attr_arn}},
            )
        )
        invoke = lambda_.CfnEventInvokeConfig
        invoke(
            self,
            "Failures",
            function_name=function.ref,
            qualifier="$LATEST",
            maximum_retry_attempts=2,
            destination_config=invoke.DestinationConfigProperty(
                on_failure=invoke.OnFailureProperty(destination=undelivered.queue_arn)
            ),
        )
