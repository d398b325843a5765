"""A Prometheus in the cluster: what the controller decides by.

It answers without a signature, is admitted by the policies of replicas and gateways, which name
pods and no networks, and evaluates the rules at the controller's own pace. It keeps a few hours;
Managed Prometheus keeps the rest.
"""

import hashlib
from typing import Any

import yaml

from neuronfleet.infra.addons.manifests import scrape
from neuronfleet.infra.addons.manifests.objects import (
    Manifest,
    ingress_policy,
    namespace,
    service_account,
)

NAMESPACE = "neuronfleet-monitoring"
"""Not `monitoring`: an existing cluster may have one, and this one goes with its stack."""
NAME = "prometheus"
LABELS = {"app.kubernetes.io/name": NAME}
PORT = 9090
URL = f"http://{NAME}.{NAMESPACE}.svc:{PORT}"
IMAGE = "quay.io/prometheus/prometheus:v3.16.0"
"""The version that the rules are tested with."""
_USER = 65534
_KEPT = "6h"
_DATA_GIB = 20


def manifests(
    *, rules: str, remote_write: str, region: str, cluster: str, image: str = IMAGE
) -> list[Manifest]:
    """Namespace, identity, rights, configuration, policy, Service and Deployment.

    Args:
        rules: text of the project's rule file.
        remote_write: where Managed Prometheus takes samples.
        region: of that workspace, for the signature.
        cluster: label of every sample there.
        image: where tests put a stand-in.
    """
    fixed = configuration(region=region, cluster=cluster)
    # Over what is written here: a pod that ran on would keep the old rules. The address is left
    # out, since it is not known before the workspace is.
    digest = hashlib.sha256((yaml.safe_dump(fixed) + rules).encode()).hexdigest()[:16]
    fixed["remote_write"][0]["url"] = remote_write
    return [
        namespace(NAMESPACE, "restricted"),
        service_account(NAME, NAMESPACE, token=True),
        *_rights(),
        _files(yaml.safe_dump(fixed, sort_keys=False), rules),
        _service(),
        ingress_policy(NAME, NAMESPACE, labels=LABELS, rules=[_askers()]),
        _deployment(image, digest),
    ]


def configuration(*, region: str, cluster: str) -> dict[str, Any]:
    """prometheus.yml, without the address that samples are sent to.

    Recorded series stay here: Managed Prometheus evaluates the same rules, and two writers of one
    series would contradict each other.
    """
    interval = f"{scrape.INTERVAL_S}s"
    return {
        "global": {
            "scrape_interval": interval,
            "scrape_timeout": "10s",
            "evaluation_interval": interval,
            "external_labels": {"cluster": cluster},
        },
        "rule_files": ["/etc/prometheus/fleet.yml"],
        "scrape_configs": scrape.product_jobs(),
        "remote_write": [
            {
                "url": "",
                "sigv4": {"region": region},
                "write_relabel_configs": [
                    {"source_labels": ["__name__"], "regex": "fleet:.+", "action": "drop"}
                ],
            }
        ],
    }


def _rights() -> list[Manifest]:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    name = f"neuronfleet-{NAME}"
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [rule],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        },
    ]


def _files(config: str, rules: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "data": {"prometheus.yml": config, "fleet.yml": rules},
    }


def _service() -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": dict(LABELS)},
        "spec": {
            "selector": dict(LABELS),
            "ports": [{"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _askers() -> dict[str, Any]:
    """Controllers, wherever the chart was installed."""
    controller = {
        "app.kubernetes.io/name": "neuronfleet",
        "app.kubernetes.io/component": "controller",
    }
    peer = {"namespaceSelector": {}, "podSelector": {"matchLabels": controller}}
    return {"from": [peer], "ports": [{"port": "http", "protocol": "TCP"}]}


def _deployment(image: str, digest: str) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": dict(LABELS)},
        "spec": {
            # While it starts again the controller reads the gateways' own counters, and nothing
            # shrinks. Two of them would each write every sample.
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": dict(LABELS)},
            "template": {
                "metadata": {
                    "labels": dict(LABELS),
                    "annotations": {"neuronfleet.dev/configuration": digest},
                },
                "spec": _pod(image),
            },
        },
    }


def _pod(image: str) -> dict[str, Any]:
    return {
        "serviceAccountName": NAME,
        "enableServiceLinks": False,
        "priorityClassName": "system-cluster-critical",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(image)],
        "volumes": [
            {"name": "files", "configMap": {"name": NAME}},
            {"name": "data", "emptyDir": {"sizeLimit": f"{_DATA_GIB}Gi"}},
        ],
    }


def _container(image: str) -> dict[str, Any]:
    return {
        "name": NAME,
        "image": image,
        "args": [
            "--config.file=/etc/prometheus/prometheus.yml",
            "--storage.tsdb.path=/data",
            f"--storage.tsdb.retention.time={_KEPT}",
            # Below the volume's limit, beyond which the pod would be evicted.
            f"--storage.tsdb.retention.size={_DATA_GIB - 4}GB",
            f"--web.listen-address=:{PORT}",
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": "http"}, "periodSeconds": 5},
        "livenessProbe": {
            "httpGet": {"path": "/-/healthy", "port": "http"},
            "initialDelaySeconds": 30,
            "periodSeconds": 20,
        },
        "resources": {
            "requests": {"cpu": "250m", "memory": "1Gi"},
            "limits": {"memory": "2Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "files", "mountPath": "/etc/prometheus", "readOnly": True},
            {"name": "data", "mountPath": "/data"},
        ],
    }
