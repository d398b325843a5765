import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from neuronfleet.infra.addons.manifests import fleets, neuron_monitor, prometheus, scrape
from neuronfleet.infra.settings.model import Serving
from neuronfleet.infra.settings.offers import neuron_types
from neuronfleet.serving.controller.workloads.replica_spec import PORT as REPLICA_PORT

ROOT = Path(__file__).parents[3]
RULES = (ROOT / "monitoring/rules/fleet.yml").read_text()


def only(made: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (one for one in made if one["kind"] == kind)
    return found


def monitor() -> list[dict[str, Any]]:
    return neuron_monitor.manifests("10.0.0.0/16")


def server(**given: str) -> list[dict[str, Any]]:
    usual = {"rules": RULES, "remote_write": "https://aps.example/", "region": "us-east-2"}
    return prometheus.manifests(**usual | {"cluster": "fleet"} | given)


def test_neuron_monitor_runs_on_every_neuron_type_and_bears_their_taint() -> None:
    pod = only(monitor(), "DaemonSet")["spec"]["template"]["spec"]

    wanted = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (types,) = wanted["nodeSelectorTerms"][0]["matchExpressions"]
    assert set(types["values"]) == set(neuron_types())
    assert "trn2.48xlarge" in types["values"]
    assert {one["key"] for one in pod["tolerations"]} == {"aws.amazon.com/neuron"}


def test_neuron_monitors_port_is_not_the_replicas() -> None:
    (container,) = only(monitor(), "DaemonSet")["spec"]["template"]["spec"]["containers"]

    assert container["args"][:2] == ["--port", str(neuron_monitor.PORT)]
    assert neuron_monitor.PORT != REPLICA_PORT
    assert container["ports"][0]["containerPort"] == neuron_monitor.PORT


def test_neuron_monitor_is_privileged_for_devices_and_has_nothing_else_of_the_host() -> None:
    pod = only(monitor(), "DaemonSet")["spec"]["template"]["spec"]

    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(pod)
    assert pod["containers"][0]["resources"]["limits"]


def test_neuron_monitor_answers_the_network_of_scrapers_alone() -> None:
    policy = only(monitor(), "NetworkPolicy")["spec"]

    assert policy["podSelector"]["matchLabels"] == neuron_monitor.LABELS
    assert policy["ingress"] == [
        {
            "from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}],
            "ports": [{"port": "metrics", "protocol": "TCP"}],
        }
    ]


@pytest.mark.parametrize("image", [neuron_monitor.IMAGE, prometheus.IMAGE])
def test_images_are_pinned_to_a_version(image: str) -> None:
    assert re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+", image)


def test_prometheus_has_no_more_rights_than_to_find_pods() -> None:
    role = only(server(), "ClusterRole")

    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    ]


def test_prometheus_evaluates_the_projects_rules_as_they_stand() -> None:
    files = only(server(), "ConfigMap")["data"]

    assert files["fleet.yml"] == RULES
    assert yaml.safe_load(files["prometheus.yml"])["rule_files"] == ["/etc/prometheus/fleet.yml"]


def test_samples_are_signed_and_recorded_series_stay() -> None:
    files = only(server(), "ConfigMap")["data"]

    (target,) = yaml.safe_load(files["prometheus.yml"])["remote_write"]
    (rule,) = target["write_relabel_configs"]
    recorded = re.findall(r"record: (\S+)", RULES)
    assert target["url"] == "https://aps.example/"
    assert target["sigv4"] == {"region": "us-east-2"}
    assert rule["action"] == "drop"
    assert recorded
    assert all(re.fullmatch(rule["regex"], name) for name in recorded)


def annotations(**given: str) -> dict[str, str]:
    template = only(server(**given), "Deployment")["spec"]["template"]
    found: dict[str, str] = template["metadata"]["annotations"]
    return found


def test_a_changed_rule_replaces_the_pod_and_an_address_does_not() -> None:
    assert annotations() != annotations(rules=f"{RULES}\n# more")
    assert annotations() == annotations(remote_write="https://elsewhere.example/")


def test_replicas_carry_the_labels_by_which_rules_know_fleets() -> None:
    (job,) = (one for one in scrape.product_jobs() if one["job_name"] == "replicas")

    targets = {one.get("target_label"): one for one in job["relabel_configs"]}
    assert {"fleet", "variant", "replica"} <= set(targets)
    assert targets["fleet"]["separator"] == "."
    (renamed,) = job["metric_relabel_configs"]
    assert re.fullmatch(renamed["regex"], "vllm_generation_tokens_total")


def test_what_is_scraped_is_labelled_and_named_as_the_charts_pods_are() -> None:
    templates = "".join(path.read_text() for path in (ROOT / "serving/chart/templates").iterdir())
    jobs = {one["job_name"]: one for one in scrape.product_jobs()}
    for part, port in (("controller", "http"), ("gateways", "agent")):
        kept = [o for o in jobs[part]["relabel_configs"] if o.get("action") == "keep"]
        asked = {one["source_labels"][0]: one["regex"] for one in kept}
        assert asked["__meta_kubernetes_pod_container_port_name"] == port
        assert f"name: {port}, containerPort" in templates


@pytest.mark.peer
def test_promtool_takes_the_configurations(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool
    (tmp_path / "fleet.yml").write_text(RULES)
    config = prometheus.configuration(region="us-east-2", cluster="fleet")
    config["remote_write"][0]["url"] = "https://aps.example/"
    config["rule_files"] = ["fleet.yml"]
    config["scrape_configs"] += scrape.infrastructure_jobs()
    for job in config["scrape_configs"]:
        # Debian's Prometheus is built without discovery in Kubernetes.
        del job["kubernetes_sd_configs"]
        job["static_configs"] = [{"targets": ["localhost:1"]}]
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))

    done = subprocess.run(
        [promtool, "check", "config", str(path)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_namespaces_of_fleets_take_restricted_pods_alone() -> None:
    made = fleets.manifests(Serving(fleet_namespaces=("a", "b")))

    levels = [one["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] for one in made]
    assert levels == ["restricted", "restricted"]


def test_a_named_service_account_is_made_in_each_and_default_is_left_alone() -> None:
    serving = Serving(fleet_namespaces=("a", "b"), service_account="reader")

    accounts = [o for o in fleets.manifests(serving) if o["kind"] == "ServiceAccount"]
    assert [one["metadata"]["namespace"] for one in accounts] == ["a", "b"]
    assert all(one["automountServiceAccountToken"] is False for one in accounts)
    assert len(fleets.manifests(Serving(fleet_namespaces=("a", "b")))) == 2
