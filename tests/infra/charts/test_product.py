import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from neuronfleet.infra.addons.manifests import prometheus
from neuronfleet.infra.charts import neuron, product
from neuronfleet.infra.charts.product import Pushed
from neuronfleet.infra.settings.model import Serving
from neuronfleet.serving.api.problems import SpecError

CHART = Path(__file__).parents[3] / product.PATH
DIGEST = f"sha256:{'0' * 64}"
IMAGES = {
    name: Pushed(registry="registry.example", repository=f"fleet/{name}", digest=DIGEST)
    for name in ("controller", "gateway", "vllm-neuron-gen1", "vllm-neuron-gen2", "bench")
}


def merged(usual: dict[str, object], given: dict[str, object]) -> dict[str, object]:
    """As helm merges values over a chart's own."""
    made = dict(usual)
    for key, value in given.items():
        old = made.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        made[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return made


def test_the_charts_own_schema_takes_the_values() -> None:
    usual = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    given = product.values(Serving(), IMAGES)

    jsonschema.validate(merged(usual, given), schema, jsonschema.Draft202012Validator)


def test_every_image_is_named_by_its_digest_and_no_tag() -> None:
    values = product.values(Serving(), IMAGES)

    images = [values["controller"]["image"], values["gateway"]["image"]]
    images += list(values["fleets"]["images"].values())
    assert len(images) == 4
    assert all(one["digest"] == DIGEST and one["tag"] == "" for one in images)


@pytest.mark.parametrize("missing", product.NEEDED)
def test_without_controller_or_gateway_nothing_is_installed(missing: str) -> None:
    images = {name: image for name, image in IMAGES.items() if name != missing}

    with pytest.raises(SpecError, match=rf"must have {missing}"):
        product.values(Serving(), images)


def test_a_generation_that_was_not_built_is_left_to_the_variants() -> None:
    images = {name: image for name, image in IMAGES.items() if not name.endswith("gen1")}

    assert list(product.values(Serving(), images)["fleets"]["images"]) == ["generation2"]


def test_the_controller_asks_the_prometheus_that_is_deployed_and_admits_it() -> None:
    told = product.values(Serving(), IMAGES)["prometheus"]

    made = prometheus.manifests(rules="", remote_write="", region="x", cluster="fleet")
    (service,) = (one for one in made if one["kind"] == "Service")
    where = service["metadata"]
    assert told["url"] == f"http://{where['name']}.{where['namespace']}.svc:9090"
    assert service["spec"]["ports"][0]["port"] == 9090
    (pods,) = (one for one in made if one["kind"] == "Deployment")
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert told["podLabels"].items() <= labels.items()
    assert told["namespace"] == where["namespace"]


def test_replicas_are_scheduled_by_the_scheduler_that_the_neuron_chart_installs() -> None:
    installed = neuron.values("1.35")["scheduler"]["customScheduler"]["fullnameOverride"]

    assert product.values(Serving(), IMAGES)["fleets"]["schedulerName"] == installed


def test_rights_are_limited_to_the_namespaces_of_fleets() -> None:
    values = product.values(Serving(fleet_namespaces=("a", "b")), IMAGES)

    assert values["watchNamespaces"] == ["a", "b"]
