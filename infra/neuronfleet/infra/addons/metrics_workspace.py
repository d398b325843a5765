"""Managed Prometheus: the workspace, its logs and the project's rules."""

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_aps as aps
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from neuronfleet.infra.addons.sources import source

RULES = "monitoring/rules/fleet.yml"


class MetricsWorkspace(Construct):
    """Where samples of the whole deployment are kept, 150 days by the service's default."""

    def __init__(
        self, scope: Construct, id: str, *, deployment: str, key: kms.IKey, log_days: int
    ) -> None:
        super().__init__(scope, id)
        group = logs.CfnLogGroup(
            self,
            "Logs",
            # The service writes to groups of this prefix alone.
            log_group_name=f"/aws/vendedlogs/prometheus/{deployment}",
            kms_key_id=key.key_arn,
            retention_in_days=log_days,
        )
        workspace = aps.CfnWorkspace(
            self,
            "Workspace",
            alias=deployment,
            kms_key_arn=key.key_arn,
            logging_configuration=aps.CfnWorkspace.LoggingConfigurationProperty(
                log_group_arn=_all_streams(group)
            ),
        )
        # Measurements are evidence: what a fleet cost is asked long after it is gone.
        workspace.apply_removal_policy(RemovalPolicy.RETAIN)
        aps.CfnRuleGroupsNamespace(
            self,
            "Rules",
            name="neuronfleet",
            workspace=workspace.attr_arn,
            data=source(RULES).read_text(encoding="utf-8"),
        )
        self.arn = workspace.attr_arn
        self.remote_write = f"{workspace.attr_prometheus_endpoint}api/v1/remote_write"


def _all_streams(group: logs.CfnLogGroup) -> str:
    """The group's ARN with `:*`, as the service asks for it."""
    stack = Stack.of(group)
    return stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=f"{group.ref}:*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
