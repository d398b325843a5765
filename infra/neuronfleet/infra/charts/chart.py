"""A chart at one version, and the schema of the values that are set on it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart of a registry."""

    name: str
    version: str
    repository: str
    """oci://... of the chart itself, or the address of a chart repository."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the values that are set; what it does not name is refused."""
        text = resources.files(__package__).joinpath(f"{self.name}.schema.json").read_text("utf-8")
        found: Mapping[str, Any] = json.loads(text)
        return found
