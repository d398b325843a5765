"""The chart as helm renders it."""

import functools
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import binaries

Object = dict[str, Any]
Values = Mapping[str, Any]

ROOT = Path(__file__).parents[3]
CHART = ROOT / "serving/chart"
RELEASE, NAMESPACE = "neuronfleet", "neuronfleet-system"
# A helm built from its module takes itself for one of Kubernetes 1.20.
_KUBE = "--kube-version=1.35.0"
APIS = ("monitoring.coreos.com/v1/PodMonitor", "monitoring.coreos.com/v1/PrometheusRule")
NEEDED: Values = {"imageRegistry": "registry.example/nf"}
DIGEST = "sha256:" + "0a" * 32

EVERY_OPTION: Values = {
    "imageRegistry": "registry.example/nf",
    "imagePullSecrets": ["pull"],
    "watchNamespaces": ["team-a", "team-b"],
    "prometheus": {"cidrs": ["10.1.0.0/16"]},
    "fleets": {
        "images": {
            "generation1": {"repository": "vllm-neuron-gen1", "tag": "1"},
            "generation2": {"registry": "other.example", "repository": "g2", "digest": DIGEST},
        },
        "schedulerName": "neuron-scheduler",
    },
    "controller": {
        "image": {"digest": DIGEST},
        "priorityClassName": "high",
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {}},
        "podLabels": {"team": "x"},
        "podAnnotations": {"note": "y"},
    },
    "gateway": {
        "image": {"tag": "1.2"},
        "service": {
            "type": "LoadBalancer",
            "loadBalancerClass": "service.k8s.aws/nlb",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "annotations": {"note": "z"},
        },
        "ingress": {"enabled": True, "host": "models.example", "annotations": {"note": "z"}},
        "tls": {"secretName": "cert", "alsoPlain": True},
        "apiKeys": {"secretName": "keys"},
        "priorityClassName": "high",
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "podLabels": {"team": "x"},
        "podAnnotations": {"note": "y"},
    },
    "networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]},
    "monitoring": {"podMonitors": "always", "rules": "always", "labels": {"release": "prom"}},
}


def helm(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm on this machine alone."""
    entry = [str(binaries.program("helm")), *arguments]
    return subprocess.run(entry, input=given, capture_output=True, text=True, check=False)


def render(
    values: Values | None = None,
    *,
    apis: Sequence[str] = (),
    release: str = RELEASE,
    namespace: str = NAMESPACE,
) -> list[Object]:
    """All objects that the chart makes of values, beside the one that is always needed."""
    whole = json.dumps({**NEEDED, **(values or {})}, sort_keys=True)
    made = _template(whole, tuple(apis), release, namespace)
    assert made.returncode == 0, made.stderr
    return [one for one in yaml.safe_load_all(made.stdout) if one]


def refusal(values: Values) -> str:
    """What helm says to values that will not do."""
    whole = json.dumps({**NEEDED, **values}, sort_keys=True)
    made = _template(whole, (), RELEASE, NAMESPACE)
    assert made.returncode != 0, f"{values} were taken"
    return made.stderr


@functools.cache
def _template(
    values: str, apis: tuple[str, ...], release: str, namespace: str
) -> subprocess.CompletedProcess[str]:
    known = [f"--api-versions={api}" for api in apis]
    options = [_KUBE, "--namespace", namespace, "--values", "-", *known]
    return helm("template", release, str(CHART), *options, given=values)


def lint(values: Values) -> subprocess.CompletedProcess[str]:
    """Helm's own checks."""
    return helm("lint", "--strict", _KUBE, str(CHART), "--values", "-", given=json.dumps(values))


def of_kind(objects: Sequence[Object], kind: str, ending: str = "") -> Object:
    """The one object of a kind whose name ends so."""
    found = [
        one for one in objects if one["kind"] == kind and one["metadata"]["name"].endswith(ending)
    ]
    assert len(found) == 1, f"{kind} *{ending}: {[one['metadata']['name'] for one in found]}"
    return found[0]


def kinds(objects: Sequence[Object]) -> set[str]:
    return {one["kind"] for one in objects}
