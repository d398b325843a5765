"""Types whose stock moto models are whole enough: what they create can be described."""

from typing import Any

import moto.cloudformation.parsing as parsing

from tests.infra.deploy.emulator import schema
from tests.infra.deploy.emulator.registry import Made, Refused, Request

TYPES = frozenset(
    {
        "AWS::EC2::EIP",
        "AWS::EC2::FlowLog",
        "AWS::EC2::InternetGateway",
        "AWS::EC2::NatGateway",
        "AWS::EC2::Route",
        "AWS::EC2::RouteTable",
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SubnetRouteTableAssociation",
        "AWS::EC2::VPC",
        "AWS::EC2::VPCEndpoint",
        "AWS::EC2::VPCGatewayAttachment",
        "AWS::IAM::InstanceProfile",
        "AWS::IAM::ManagedPolicy",
        "AWS::IAM::Policy",
        "AWS::IAM::Role",
        "AWS::Logs::LogGroup",
    }
)


def create(request: Request, resources: Any) -> tuple[Any, Made]:
    """Create through moto's own model of the type."""
    model = parsing.get_model_map().get(request.type)
    if model is None:
        raise Refused(f"moto has no model of {request.type}")
    name_property = model.cloudformation_name_type()
    known = schema.schema(request.region, request.type) or {}
    named = name_property in known.get("properties", {})
    made = model.create_from_cloudformation_json(
        request.name(name_property) if named else request.name(),
        {"Type": request.type, "Properties": dict(request.properties)},
        request.account,
        request.region,
        LogicalId=request.logical_id,
        StackId=resources.stack_id,
        ResourceType=request.type,
    )
    if made is None:
        raise Refused(f"moto created nothing for {request.type}")
    if getattr(made, "physical_resource_id", None) is None:
        raise Refused(f"moto gives no physical ID to {request.type}")
    made.cf_resource_type = request.type
    made.logical_resource_id = request.logical_id
    return made, Made(ref=made.physical_resource_id)
