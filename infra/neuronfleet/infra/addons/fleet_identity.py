"""What a fleet's replicas may do in AWS: read weights and graphs, and nothing else."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from neuronfleet.infra.addons.pod_identity import PodIdentity
from neuronfleet.infra.addons.wildcards import acknowledge_resource
from neuronfleet.infra.settings.model import Serving
from neuronfleet.infra.stacks.facts import ClusterFacts, DataFacts


class FleetIdentity(Construct):
    """The service account of fleets, in each of their namespaces."""

    def __init__(
        self, scope: Construct, id: str, *, serving: Serving, data: DataFacts, cluster: ClusterFacts
    ) -> None:
        super().__init__(scope, id)
        identity = PodIdentity(
            self,
            "Pods",
            cluster_name=cluster.name,
            namespaces=serving.fleet_namespaces,
            service_account=serving.service_account,
        )
        stores = (data.weights, data.graphs)
        through_s3 = f"s3.{Stack.of(self).region}.amazonaws.com"
        # Written out: a bucket's own grant would add more (s3:GetBucket*, for one), and change the
        # key's policy from another stack.
        policy = iam.Policy(
            self,
            "Read",
            roles=[identity.role],
            statements=[
                iam.PolicyStatement(
                    sid="ListStores",
                    actions=["s3:ListBucket"],
                    resources=[store.bucket_arn for store in stores],
                ),
                iam.PolicyStatement(
                    sid="ReadObjects",
                    actions=["s3:GetObject"],
                    resources=[store.arn_for_objects("*") for store in stores],
                ),
                iam.PolicyStatement(
                    sid="DecryptThroughS3",
                    actions=["kms:Decrypt"],
                    resources=[data.key.key_arn],
                    conditions={"StringEquals": {"kms:ViaService": through_s3}},
                ),
            ],
        )
        for store in stores:
            acknowledge_resource(
                policy,
                store.arn_for_objects("*"),
                reason="a fleet reads whichever model and graph set its spec names",
            )
