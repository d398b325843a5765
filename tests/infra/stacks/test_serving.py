import json
from functools import cache
from pathlib import Path
from typing import Any

import cdk_nag
import jsonschema
import pytest
import yaml
from aws_cdk import Validations

from neuronfleet.infra.settings.model import Image, Serving
from neuronfleet.serving.api.problems import SpecError
from tests.infra.addons.world import DIGEST, INF2, Made, World, settings
from tests.infra.charts.test_product import merged

CHART = Path(__file__).parents[3] / "serving/chart"


@cache
def serving(**given: Any) -> Made:
    return Made(World(settings(INF2, **given)).serving())


def test_the_chart_is_installed_by_digest_from_the_deployments_own_registry() -> None:
    values = serving().charts()["neuronfleet"]["Values"]

    for part in ("controller", "gateway"):
        image = values[part]["image"]
        assert image["registry"] == "111122223333.dkr.ecr.us-east-2.<AWS::URLSuffix>"
        assert image["repository"] == f"fleet/{part}"
        assert image["digest"] == DIGEST


def test_values_as_they_are_deployed_are_what_the_chart_takes() -> None:
    text = json.dumps(serving().charts()["neuronfleet"]["Values"])
    given = json.loads(text.replace("<AWS::URLSuffix>", "example"))
    usual = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())

    jsonschema.validate(merged(usual, given), schema, jsonschema.Draft202012Validator)


def test_a_deployment_is_green_when_pods_run_and_gives_up_before_its_function_ends() -> None:
    chart = serving().charts()["neuronfleet"]

    assert chart["Wait"] is True
    assert chart["Timeout"] == "600s"
    assert "Atomic" not in chart or chart["Atomic"] is False
    assert chart["ChartAssetURL"]


def test_namespaces_of_fleets_stay_when_the_stack_goes() -> None:
    (homes,) = serving().resources("Custom::AWSCDK-EKS-KubernetesResource")

    assert homes["DeletionPolicy"] == "Retain"
    # With a label to prune by, one that the settings no longer name would be deleted.
    assert "PruneLabel" not in homes["Properties"]
    assert homes["Properties"]["Overwrite"] is True
    assert json.loads(homes["Properties"]["Manifest"])[0]["metadata"]["name"] == "models"


def test_they_are_there_before_the_chart_that_watches_them() -> None:
    made = serving()
    (chart,) = made.resources("Custom::AWSCDK-EKS-HelmChart")
    homes = [
        name for name, one in made.template["Resources"].items()
        if one["Type"] == "Custom::AWSCDK-EKS-KubernetesResource"
    ]  # fmt: skip

    assert set(homes) <= set(chart["DependsOn"])


def test_every_namespace_that_is_watched_is_made() -> None:
    made = serving(serving=Serving(fleet_namespaces=("a", "b")))

    names = [one["metadata"]["name"] for one in made.manifests() if one["kind"] == "Namespace"]
    assert made.charts()["neuronfleet"]["Values"]["watchNamespaces"] == names == ["a", "b"]


def test_without_a_recorded_controller_there_is_no_stack_at_all() -> None:
    images = (Image(name="controller"), Image(name="gateway", digest=DIGEST))

    with pytest.raises(SpecError, match="must have controller"):
        serving(images=images)


def test_no_finding_of_nag_is_left() -> None:
    world = World(settings(INF2))
    world.serving()
    Validations.of(world.app).add_plugins(cdk_nag.AwsSolutionsChecks(world.app))
    world.app.synth()
