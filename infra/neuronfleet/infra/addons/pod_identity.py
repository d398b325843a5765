"""AWS rights of one service account, by EKS Pod Identity."""

from collections.abc import Sequence

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct


class PodIdentity(Construct):
    """A role that only these service accounts of this cluster can take on."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        namespaces: Sequence[str],
        service_account: str,
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=pods(cluster_name, namespaces, service_account),
            description=f"Pods of {service_account} in {', '.join(namespaces)}",
        )
        for namespace in namespaces:
            eks.CfnPodIdentityAssociation(
                self,
                f"Association-{namespace}",
                cluster_name=cluster_name,
                namespace=namespace,
                service_account=service_account,
                role_arn=self.role.role_arn,
            )


def pods(cluster_name: str, namespaces: Sequence[str], service_account: str) -> iam.PrincipalBase:
    """The tags that EKS puts on each session say whose it is; none of them is a pod's to choose."""
    own = {
        "StringEquals": {
            "aws:RequestTag/eks-cluster-name": cluster_name,
            "aws:RequestTag/kubernetes-namespace": list(namespaces),
            "aws:RequestTag/kubernetes-service-account": service_account,
        }
    }
    pods = iam.ServicePrincipal("pods.eks.amazonaws.com", conditions=own)
    return iam.SessionTagsPrincipal(pods)
