"""What the chart copies, documents and repeats is what its sources say."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.serving.chart import values_table
from tests.serving.chart.charts import CHART, ROOT

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())


@pytest.mark.parametrize(
    "source",
    ["serving/crds/servingfleets.neuronfleet.dev.yaml", "monitoring/rules/fleet.yml"],
)
def test_a_copied_file_is_its_source(source: str) -> None:
    copy = CHART / "files" / source.rpartition("/")[2]

    assert copy.read_text() == (ROOT / source).read_text(), "run `make chart`"


def test_the_readme_lists_every_value_with_its_default() -> None:
    table = values_table.render(SCHEMA, VALUES)

    assert table in (CHART / "README.md").read_text(), (
        "run `python -m tests.serving.chart.values_table`"
    )


def test_every_value_has_a_description_and_every_described_value_a_default() -> None:
    rows = {row.path: row for row in values_table.rows(SCHEMA, VALUES)}

    assert set(rows) == set(_leaves(VALUES, ""))
    assert not [path for path, row in rows.items() if not row.description]


def _leaves(values: Mapping[str, Any], path: str) -> Iterator[str]:
    node = values_table.node(SCHEMA, path)
    if "properties" not in node or path.endswith("resources"):
        yield path
        return
    for name, value in values.items():
        yield from _leaves(value, f"{path}.{name}" if path else name)


def test_no_object_of_the_schema_takes_unknown_fields() -> None:
    def objects(node: object, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if isinstance(node, dict):
            if node.get("type") == "object":
                yield path, node
            for name, inner in node.items():
                yield from objects(inner, f"{path}/{name}")

    # A pod's affinity is checked by the API server, and `global` is Helm's.
    free = {f"/properties/{part}/properties/affinity" for part in ("controller", "gateway")}
    open_ones = {path for path, one in objects(SCHEMA, "") if "additionalProperties" not in one}
    assert open_ones == free | {"/properties/global"}


def test_durations_say_their_unit() -> None:
    paths = [row.path for row in values_table.rows(SCHEMA, VALUES)]
    suspects = [path for path in paths if re.search(r"(Delay|Timeout|Interval|Wait)$", path)]

    assert not suspects
