"""The controller's settings file."""

from pathlib import Path

import pytest

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.settings import load

GOOD = """
prometheus: {url: http://prometheus:9090/}
lease: {namespace: neuronfleet}
interval: 30s
workloads:
  images: {generation2: "registry/gen2@sha256:0"}
  gateway: {namespace: neuronfleet, labels: {a: b}}
  requestShare: 0.5
"""


def test_a_file_is_read_with_its_units(tmp_path: Path) -> None:
    path = tmp_path / "controller.yaml"
    path.write_text(GOOD)

    settings = load(path)

    assert settings.prometheus_url == "http://prometheus:9090"
    assert settings.interval_s == 30
    assert settings.workloads.images == {2: "registry/gen2@sha256:0"}
    assert settings.workloads.request_share == 0.5
    assert settings.patience.capacity_wait_s == 300


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("interval: 30s", "interval = nonsense"),
        ("requestShare: 0.5", "workloads.requestShare = 7, must be in [0, 1]"),
        ("url: http://prometheus:9090/", "prometheus.url = nothing, must be given"),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_range(
    tmp_path: Path, wrong: str, said: str
) -> None:
    mended = {
        "interval: 30s": "interval: nonsense",
        "requestShare: 0.5": "requestShare: 7",
        "url: http://prometheus:9090/": "",
    }
    path = tmp_path / "controller.yaml"
    path.write_text(GOOD.replace(wrong, mended[wrong]))

    with pytest.raises(SpecError) as caught:
        load(path)

    assert said in str(caught.value)


def test_a_field_that_is_none_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "controller.yaml"
    path.write_text(GOOD + "intervall: 3s\n")

    with pytest.raises(SpecError, match="did you mean interval"):
        load(path)
