"""The CodeBuild project of one image."""

from aws_cdk import Aws, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from neuronfleet.infra import nag
from neuronfleet.infra.images.build_spec import build_spec

BUILDER = "aws/codebuild/amazonlinux-x86_64-standard:5.0"
COMPUTE = "BUILD_GENERAL1_LARGE"
"""128 GB of disk: a vLLM image and its base are tens of GB."""
_TIMEOUT_MINUTES = 90
_PUSH = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
_Project = codebuild.CfnProject


class ImageProject(Construct):
    """Builds out of the source bundle and writes the digest to a parameter.

    It runs outside the VPC: bases come from public registries, and nothing reaches into a build.
    """

    name: str

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        image: str,
        repository: ecr.IRepository,
        source: s3.IBucket,
        source_key: str,
        key: kms.IKey,
        parameter: str,
        log_days: int,
    ) -> None:
        super().__init__(scope, id)
        log = logs.CfnLogGroup(self, "Log", retention_in_days=log_days)
        log.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        bundle = source.arn_for_objects(source_key)
        role = self._role(
            [*_source(source, bundle), *_keys(key), *_pushes(repository), _says(log)],
            Stack.of(self).format_arn(
                service="ssm", resource="parameter", resource_name=parameter.removeprefix("/")
            ),
        )
        project = _Project(
            self,
            "Project",
            name=name,
            description=f"Builds images/{image} and records its digest",
            artifacts=_Project.ArtifactsProperty(type="NO_ARTIFACTS"),
            encryption_key=key.key_arn,
            environment=_environment(
                {"IMAGE": image, "REPOSITORY": repository.repository_uri, "PARAMETER": parameter}
            ),
            logs_config=_Project.LogsConfigProperty(
                cloud_watch_logs=_Project.CloudWatchLogsConfigProperty(
                    status="ENABLED", group_name=log.ref
                )
            ),
            service_role=role.role_arn,
            source=_Project.SourceProperty(
                type="S3",
                location=f"{source.bucket_name}/{source_key}",
                build_spec=build_spec(),
            ),
            timeout_in_minutes=_TIMEOUT_MINUTES,
        )
        nag.acknowledge(
            project, "AwsSolutions-CB3", reason="A container image is built: that needs Docker."
        )
        self.name = project.ref

    def _role(self, statements: list[iam.PolicyStatement], parameter: str) -> iam.Role:
        record = iam.PolicyStatement(actions=["ssm:PutParameter"], resources=[parameter])
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            ),
            inline_policies={"Own": iam.PolicyDocument(statements=[*statements, record])},
        )
        nag.acknowledge(
            role,
            "AwsSolutions-IAM5[Resource::*]",
            reason="ecr:GetAuthorizationToken knows no narrower resource.",
        )
        return role


def _environment(variables: dict[str, str]) -> codebuild.CfnProject.EnvironmentProperty:
    return _Project.EnvironmentProperty(
        type="LINUX_CONTAINER",
        image=BUILDER,
        compute_type=COMPUTE,
        privileged_mode=True,
        environment_variables=[
            _Project.EnvironmentVariableProperty(name=name, value=value)
            for name, value in variables.items()
        ],
    )


def _source(bucket: s3.IBucket, bundle: str) -> list[iam.PolicyStatement]:
    read = iam.PolicyStatement(actions=["s3:GetObject", "s3:GetObjectVersion"], resources=[bundle])
    look = iam.PolicyStatement(
        actions=["s3:GetBucketLocation", "s3:GetBucketVersioning"], resources=[bucket.bucket_arn]
    )
    return [read, look]


def _keys(key: kms.IKey) -> list[iam.PolicyStatement]:
    use = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"]
    return [iam.PolicyStatement(actions=use, resources=[key.key_arn])]


def _pushes(repository: ecr.IRepository) -> list[iam.PolicyStatement]:
    push = iam.PolicyStatement(actions=[*_PUSH], resources=[repository.repository_arn])
    login = iam.PolicyStatement(actions=["ecr:GetAuthorizationToken"], resources=["*"])
    return [push, login]


def _says(log: logs.CfnLogGroup) -> iam.PolicyStatement:
    write = ["logs:CreateLogStream", "logs:PutLogEvents"]
    return iam.PolicyStatement(actions=write, resources=[log.attr_arn])
