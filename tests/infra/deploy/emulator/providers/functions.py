"""Lambda functions, layers and permissions: created through moto's API, never run."""

import io
import zipfile
from typing import Any

from tests.infra.deploy.emulator.registry import Made, Request, creates

AS_THEY_ARE = (
    "Architectures",
    "Description",
    "Environment",
    "Handler",
    "KMSKeyArn",
    "Layers",
    "MemorySize",
    "Role",
    "Runtime",
    "Timeout",
    "VpcConfig",
)


def _code(code: dict[str, Any]) -> dict[str, Any]:
    if "ZipFile" not in code:
        return {key: code[key] for key in ("S3Bucket", "S3Key") if key in code}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("index.py", code["ZipFile"])
    return {"ZipFile": archive.getvalue()}


@creates("AWS::Lambda::Function")
def function(request: Request) -> Made:
    """A function, its code an object that was uploaded, its role and layers existing."""
    properties = request.properties
    code = _code(properties["Code"])
    if "S3Key" in code:
        request.client("s3").head_object(Bucket=code["S3Bucket"], Key=code["S3Key"])
    request.client("iam").get_role(RoleName=properties["Role"].rsplit("/", 1)[1])
    functions = request.client("lambda")
    for layer in properties.get("Layers", []):
        name, version = layer.rsplit(":", 2)[1:]
        functions.get_layer_version(LayerName=name, VersionNumber=int(version))
    name = request.name("FunctionName")
    kept = {key: properties[key] for key in AS_THEY_ARE if key in properties}
    kept["Environment"] = properties.get("Environment", {})
    arn = functions.create_function(FunctionName=name, Code=code, **kept)["FunctionArn"]
    if "ReservedConcurrentExecutions" in properties:
        functions.put_function_concurrency(
            FunctionName=name,
            ReservedConcurrentExecutions=properties["ReservedConcurrentExecutions"],
        )
    return Made(ref=name, attributes={"Arn": arn})


@creates("AWS::Lambda::LayerVersion")
def layer(request: Request) -> Made:
    """The first version of a layer."""
    content = _code(request.properties["Content"])
    request.client("s3").head_object(Bucket=content["S3Bucket"], Key=content["S3Key"])
    arn = request.client("lambda").publish_layer_version(
        LayerName=request.name("LayerName"),
        Content=content,
        CompatibleRuntimes=request.properties.get("CompatibleRuntimes", []),
    )["LayerVersionArn"]
    return Made(ref=arn, attributes={"LayerVersionArn": arn})


@creates("AWS::Lambda::Permission")
def permission(request: Request) -> Made:
    """Who may invoke a function that exists."""
    properties = request.properties
    kept = {key: properties[key] for key in ("SourceArn", "SourceAccount") if key in properties}
    request.client("lambda").add_permission(
        FunctionName=properties["FunctionName"],
        StatementId=request.logical_id,
        Action=properties["Action"],
        Principal=properties["Principal"],
        **kept,
    )
    return Made(ref=request.logical_id, attributes={"Id": request.logical_id})
