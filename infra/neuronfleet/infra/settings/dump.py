"""Settings as the YAML that they would be parsed of."""

import dataclasses
import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import yaml

from neuronfleet.infra.settings.model import Admin, ExistingCluster, ExistingNetwork, Settings
from neuronfleet.infra.settings.parse import API_VERSION, KIND


def dump(settings: Settings) -> str:
    """A text that parses to equal settings; what is absent or empty is left out."""
    document = {"apiVersion": API_VERSION, "kind": KIND, **_plain(settings)}
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _plain(value: Any) -> Any:
    match value:
        case Admin():
            return value.arn
        case ExistingNetwork() | ExistingCluster():
            return {"existing": _fields(value)}
        case Enum():
            return str(value.value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case Mapping():
            return dict(value)
        case tuple():
            return [_plain(item) for item in value]
        case _:
            return _fields(value) if dataclasses.is_dataclass(value) else value


def _fields(value: Any) -> dict[str, Any]:
    found = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return {_camel(key): item for key, item in found.items() if item not in (None, [], {})}


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda letter: letter.group(1).upper(), name)
