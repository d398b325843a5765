from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from neuronfleet.infra.charts import efa, karpenter, neuron
from neuronfleet.infra.charts.chart import Chart
from neuronfleet.infra.settings.offers import neuron_types
from neuronfleet.infra.settings.versions import KUBERNETES
from neuronfleet.serving.api.problems import SpecError

INSTALL = karpenter.Install(
    cluster_name="fleet",
    cluster_endpoint="https://fleet.example",
    interruption_queue="fleet-notices",
)
SET: Mapping[str, tuple[Chart, dict[str, Any]]] = {
    "karpenter": (karpenter.CONTROLLER, karpenter.values(INSTALL)),
    "crds": (karpenter.CRDS, {}),
    "neuron": (neuron.CHART, neuron.values("1.35")),
    "efa": (efa.CHART, efa.values(["trn1.32xlarge"])),
}


@pytest.mark.parametrize("name", SET)
def test_what_is_set_on_a_chart_is_what_it_takes(name: str) -> None:
    chart, values = SET[name]

    jsonschema.Draft202012Validator.check_schema(chart.schema)
    jsonschema.validate(values, chart.schema, jsonschema.Draft202012Validator)


def nested(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of all mappings, the outermost included."""
    found = [path]
    for key, value in values.items():
        if isinstance(value, dict):
            found += nested(value, (*path, key))
    return found


@pytest.mark.parametrize("name", SET)
def test_a_key_that_no_chart_knows_is_refused_wherever_it_stands(name: str) -> None:
    chart, values = SET[name]
    for path in nested(values):
        wrong = _with_key(values, path)
        with pytest.raises(jsonschema.ValidationError, match="noSuchKey"):
            jsonschema.validate(wrong, chart.schema, jsonschema.Draft202012Validator)


def _with_key(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if not path:
        return {**values, "noSuchKey": 1}
    return {**values, path[0]: _with_key(values[path[0]], path[1:])}


@pytest.mark.parametrize("name", SET)
def test_a_schema_says_its_version_and_where_it_comes_from(name: str) -> None:
    chart, _ = SET[name]

    assert chart.schema["title"].endswith(f"{chart.name} {chart.version}")
    assert len(chart.schema["$comment"]) > 40


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [str(value)]


@pytest.mark.parametrize("name", SET)
def test_nothing_is_latest(name: str) -> None:
    chart, values = SET[name]

    assert not [text for text in [chart.version, *texts(values)] if "latest" in text]


def test_the_neuron_parts_run_on_every_neuron_type_trn2_among_them() -> None:
    types = neuron.values("1.35")["neuronInstances"]

    assert set(types) == set(neuron_types())
    assert {"trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge", "inf2.xlarge"} <= set(types)


def test_the_device_plugin_and_the_dra_driver_never_come_together() -> None:
    values = neuron.values("1.35")

    assert values["devicePlugin"]["enabled"]
    assert not values["draDriver"]["enabled"]


@pytest.mark.parametrize("version", KUBERNETES)
def test_the_second_scheduler_is_of_the_clusters_own_minor_version(version: str) -> None:
    image = neuron.values(version)["scheduler"]["customScheduler"]["image"]

    assert image["tag"].startswith(f"v{version}.")


def test_a_cluster_without_a_pinned_scheduler_is_refused_with_the_versions_that_have_one() -> None:
    with pytest.raises(SpecError, match=r"cluster.version = 1\.99, must be one of 1\.33, .*1\.36"):
        neuron.values("1.99")


def test_efa_is_handed_out_on_the_types_of_its_pools_alone() -> None:
    values = efa.values(["trn2.48xlarge", "trn1.32xlarge", "trn2.48xlarge"])

    labels = values["supportedInstanceLabels"]["values"]
    assert labels == ["trn1.32xlarge", "trn2.48xlarge"]


def test_karpenter_leaves_reservations_to_node_groups() -> None:
    assert karpenter.values(INSTALL)["settings"]["featureGates"] == {"reservedCapacity": False}


def test_crds_controller_and_the_clusters_karpenter_are_of_one_version() -> None:
    build = Path(__file__).parents[2] / "cluster/build"
    core = (build / "karpenter/go.mod").read_text()
    provider = (build / "karpenter-provider-aws/go.mod").read_text()

    assert karpenter.CRDS.version == karpenter.CONTROLLER.version == karpenter.VERSION
    assert f"sigs.k8s.io/karpenter v{karpenter.VERSION} " in core
    assert f"karpenter-provider-aws v{karpenter.VERSION}\n" in provider
