"""Managed Prometheus, alarms, dashboards, log policies and budgets."""

import base64
import json

import yaml

from tests.infra.deploy.emulator.registry import Made, Refused, Request, creates, tags_of


@creates("AWS::APS::Workspace")
def workspace(request: Request) -> Made:
    """A workspace of Managed Prometheus, logging to a group that exists."""
    properties = request.properties
    amp = request.client("amp")
    made = amp.create_workspace(
        alias=properties.get("Alias", request.logical_id), tags=tags_of(properties)
    )
    found = amp.describe_workspace(workspaceId=made["workspaceId"])["workspace"]
    if logging := properties.get("LoggingConfiguration"):
        amp.create_logging_configuration(
            workspaceId=made["workspaceId"], logGroupArn=logging["LogGroupArn"]
        )
    return Made(
        ref=made["arn"],
        attributes={
            "Arn": made["arn"],
            "PrometheusEndpoint": found["prometheusEndpoint"],
            "WorkspaceId": made["workspaceId"],
        },
    )


@creates("AWS::APS::RuleGroupsNamespace")
def rule_groups(request: Request) -> Made:
    """Rules, in a workspace that exists; they have to be YAML with groups."""
    properties = request.properties
    if not (yaml.safe_load(properties["Data"]) or {}).get("groups"):
        raise Refused("Data has no groups of rules")
    made = request.client("amp").create_rule_groups_namespace(
        workspaceId=properties["Workspace"].rsplit("/", 1)[1],
        name=properties["Name"],
        data=properties["Data"].encode(),
        tags=tags_of(properties),
    )
    return Made(ref=made["arn"], attributes={"Arn": made["arn"]})


@creates("AWS::APS::Scraper")
def scraper(request: Request) -> Made:
    """A recorded scraper, between a cluster, subnets and a workspace that exist."""
    properties = request.properties
    source = properties["Source"]["EksConfiguration"]
    request.client("eks").describe_cluster(name=source["ClusterArn"].rsplit("/", 1)[1])
    request.client("ec2").describe_subnets(SubnetIds=source["SubnetIds"])
    target = properties["Destination"]["AmpConfiguration"]["WorkspaceArn"]
    request.client("amp").describe_workspace(workspaceId=target.rsplit("/", 1)[1])
    blob = base64.b64decode(properties["ScrapeConfiguration"]["ConfigurationBlob"], validate=True)
    if not (yaml.safe_load(blob) or {}).get("scrape_configs"):
        raise Refused("ConfigurationBlob has no scrape_configs")
    arn = request.arn("aps", "scraper/s-emulated")
    role = (
        f"arn:aws:iam::{request.account}:role/aws-service-role/scraper.aps.amazonaws.com/emulated"
    )
    return Made(ref=arn, attributes={"Arn": arn, "RoleArn": role, "ScraperId": "s-emulated"})


@creates("AWS::APS::ResourcePolicy")
def workspace_policy(request: Request) -> Made:
    """A recorded policy of a workspace that exists."""
    arn = request.properties["WorkspaceArn"]
    request.client("amp").describe_workspace(workspaceId=arn.rsplit("/", 1)[1])
    json.loads(request.properties["PolicyDocument"])
    return Made(ref=arn)


@creates("AWS::CloudWatch::Alarm")
def alarm(request: Request) -> Made:
    """An alarm, checked by botocore."""
    name = request.name("AlarmName")
    parameters = dict(request.properties) | {"AlarmName": name}
    request.client("cloudwatch").put_metric_alarm(**parameters)
    return Made(ref=name, attributes={"Arn": request.arn("cloudwatch", f"alarm:{name}")})


@creates("AWS::CloudWatch::Dashboard")
def dashboard(request: Request) -> Made:
    """A dashboard whose body is JSON with widgets."""
    name = request.name("DashboardName")
    body = request.properties["DashboardBody"]
    if not json.loads(body).get("widgets"):
        raise Refused("DashboardBody has no widgets")
    request.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=body)
    return Made(ref=name)


@creates("AWS::Logs::ResourcePolicy")
def log_policy(request: Request) -> Made:
    """Who may write to log groups."""
    name = request.properties["PolicyName"]
    request.client("logs").put_resource_policy(
        policyName=name, policyDocument=request.properties["PolicyDocument"]
    )
    return Made(ref=name)


@creates("AWS::Budgets::Budget")
def budget(request: Request) -> Made:
    """A budget and who hears of it."""
    made_up = f"{request.stack}-{request.logical_id}"
    given = {"BudgetName": made_up, **request.properties["Budget"]}
    if limit := given.get("BudgetLimit"):
        given["BudgetLimit"] = {"Amount": str(limit["Amount"]), "Unit": limit["Unit"]}
    request.client("budgets").create_budget(
        AccountId=request.account,
        Budget=given,
        NotificationsWithSubscribers=request.properties.get("NotificationsWithSubscribers", []),
    )
    return Made(ref=given["BudgetName"])
