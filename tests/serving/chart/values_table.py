"""The README's table of values; `python -m tests.serving.chart.values_table` writes it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.serving.chart.charts import CHART

BEGIN, END = "<!-- values: generated -->\n", "<!-- /values -->\n"
_WHOLE = ("resources", "spread")
"""Shown as one value, though they have parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    path: str
    default: str
    allowed: str
    description: str


def render(schema: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    lines = ["| value | default | allowed | meaning |", "|---|---|---|---|"]
    for row in rows(schema, values):
        cells = (f"`{row.path}`", f"`{row.default}`", row.allowed, row.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def rows(schema: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Row]:
    yield from _rows(schema, schema, values, "")


def _rows(
    schema: Mapping[str, Any], one: Mapping[str, Any], value: Any, path: str
) -> Iterator[Row]:
    full = {**_resolved(schema, one), **one}
    last = path.rpartition(".")[2]
    if "properties" in full and last not in _WHOLE:
        for name, inner in full["properties"].items():
            if name != "global":
                yield from _rows(schema, inner, value[name], f"{path}.{name}" if path else name)
        return
    if last == "spread" and "description" not in one:
        full = {**full, "description": "Whether pods must be spread over zones and nodes."}
    yield Row(
        path=path,
        default=json.dumps(value),
        allowed=_allowed(full),
        description=full.get("description", ""),
    )


def node(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The schema of a value; one without properties where it is shown as a whole."""
    found: Mapping[str, Any] = schema
    for name in filter(None, path.split(".")):
        found = _resolved(schema, found["properties"][name])
    return {} if path.rpartition(".")[2] in _WHOLE else found


def _resolved(schema: Mapping[str, Any], one: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in one:
        return one
    found: Mapping[str, Any] = schema["$defs"][one["$ref"].rpartition("/")[2]]
    return found


def _allowed(one: Mapping[str, Any]) -> str:
    if "enum" in one:
        return ", ".join(f"`{choice}`" for choice in one["enum"])
    if "minimum" in one:
        return f"{one['type']} in [{one['minimum']}, {one['maximum']}]"
    if one.get("type") == "array":
        return "list"
    return {"object": "mapping"}.get(kind := str(one["type"]), kind)


def main() -> None:
    """Write the table into the README."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    path = CHART / "README.md"
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(before + BEGIN + render(schema, values) + END + after)


if __name__ == "__main__":
    main()
