"""Types that moto has no API for and that nothing else refers into: checked and recorded."""

from tests.infra.deploy.emulator import schema
from tests.infra.deploy.emulator.registry import Made, Request, creates


@creates(
    "AWS::EC2::PlacementGroup",
    "AWS::Grafana::Workspace",
    "AWS::Lambda::EventInvokeConfig",
)
def recorded(request: Request) -> Made:
    """What the registry says that Ref and GetAtt give, made up of the logical ID."""
    given = request.properties
    made_up = f"{request.stack}-{request.logical_id}"
    parts = [
        str(given.get(name, made_up)) for name in schema.identifier(request.region, request.type)
    ]
    attributes = {
        name: str(given.get(name, f"{made_up}-{name}"))
        for name in schema.attributes(request.region, request.type)
    }
    return Made(ref="|".join(parts), attributes=attributes)
