"""CodeBuild projects and SSM parameters."""

from tests.infra.deploy.emulator.registry import Made, Request, creates, lower_keys


@creates("AWS::CodeBuild::Project")
def project(request: Request) -> Made:
    """A project, its role existing; botocore checks the rest."""
    properties = request.properties
    name = request.name()
    request.client("iam").get_role(RoleName=properties["ServiceRole"].rsplit("/", 1)[1])
    spelled = lower_keys(dict(properties))
    parameters = {
        key: spelled[key]
        for key in ("artifacts", "cache", "description", "encryptionKey", "serviceRole")
        if key in spelled
    }
    # CloudFormation's names for what the API calls otherwise.
    source = {
        ("buildspec" if key == "buildSpec" else key): item
        for key, item in spelled["source"].items()
    }
    request.client("codebuild").create_project(
        name=name,
        source=source,
        environment=spelled["environment"],
        timeoutInMinutes=properties.get("TimeoutInMinutes", 60),
        **parameters,
    )
    return Made(ref=name, attributes={"Arn": request.arn("codebuild", f"project/{name}")})


@creates("AWS::SSM::Parameter")
def parameter(request: Request) -> Made:
    """A parameter; without a name it gets one, where stock moto's model fails."""
    name = request.name()
    request.client("ssm").put_parameter(
        Name=name,
        Type=request.properties["Type"],
        Value=request.properties["Value"],
        Description=request.properties.get("Description", ""),
    )
    arn = request.arn("ssm", "parameter/" + name.lstrip("/"))
    return Made(
        ref=name,
        attributes={
            "Arn": arn,
            "Type": request.properties["Type"],
            "Value": request.properties["Value"],
        },
    )
