"""Where alarms and the budget are told, and the key that encrypts what Observability keeps."""

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

_SENDERS = ("cloudwatch.amazonaws.com", "budgets.amazonaws.com")


class ObservabilityKey(Construct):
    """One key for metrics, logs and notices."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        stack = Stack.of(self)
        self.key = kms.Key(
            self,
            "Key",
            description=f"{stack.stack_name}: metrics, logs and notices",
            enable_key_rotation=True,
            pending_window=Duration.days(30),
            # What the workspace keeps cannot be read without it.
            removal_policy=RemovalPolicy.RETAIN,
        )
        uses = ["kms:Decrypt", "kms:GenerateDataKey*"]
        for sender in _SENDERS:
            self._allow(sender, uses, {"StringEquals": {"aws:SourceAccount": stack.account}})
        arn = f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:*"
        self._allow(
            f"logs.{stack.region}.amazonaws.com",
            [*uses, "kms:Encrypt", "kms:ReEncrypt*", "kms:DescribeKey"],
            {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": arn}},
        )

    def _allow(
        self, service: str, actions: list[str], conditions: dict[str, dict[str, str]]
    ) -> None:
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal(service)],
                actions=actions,
                resources=["*"],
                conditions=conditions,
            )
        )


class AlarmTopic(Construct):
    """An encrypted topic that only CloudWatch and Budgets of this account write to."""

    def __init__(self, scope: Construct, id: str, *, key: kms.IKey, email: str | None) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        for sender in _SENDERS:
            self.topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=f"From-{sender.partition('.')[0]}".replace("-", ""),
                    principals=[iam.ServicePrincipal(sender)],
                    actions=["sns:Publish"],
                    resources=[self.topic.topic_arn],
                    conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
                )
            )
        if email is not None:
            sns.Subscription(
                self,
                "Email",
                topic=self.topic,
                protocol=sns.SubscriptionProtocol.EMAIL,
                endpoint=email,
            )
