"""A variant's podTemplate over the controller's own, as a strategic merge would do it."""

import json
from collections.abc import Mapping
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ports": "containerPort",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "resourceClaims": "name",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists of things with a name: the merge keys of the API's own types."""
_JOINED = ("tolerations", "envFrom")
"""Lists that are added to. Kubernetes would replace tolerations, and with them the chip's."""


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `patch` over it: mappings by key, named lists by name, other lists whole.

    The order of `base` is kept and what is new comes after it, so equal inputs give equal text.
    """
    result = dict(base)
    for key, value in patch.items():
        result[key] = _over(key, base[key], value) if key in base else _plain(key, value)
    return result


def _over(key: str, base: Any, value: Any) -> Any:
    if isinstance(base, Mapping) and isinstance(value, Mapping):
        return merged(base, value)
    if isinstance(base, list) and isinstance(value, list):
        if key in _KEYS:
            return _by_name(_KEYS[key], base, value)
        if key in _JOINED:
            return _joined(base, value)
    return value


def _plain(key: str, value: Any) -> Any:
    """A new value; a named list is merged with itself, so that each name stands once."""
    return _over(key, [], value) if isinstance(value, list) else value


def _by_name(name: str, base: list[Any], patch: list[Any]) -> list[Any]:
    found: dict[str, Any] = {}
    for item in (*base, *patch):
        key = json.dumps(item.get(name) if isinstance(item, Mapping) else item, default=str)
        known = found.get(key)
        both = isinstance(known, Mapping) and isinstance(item, Mapping)
        found[key] = merged(known, item) if both and known is not None else item
    return list(found.values())


def _joined(base: list[Any], patch: list[Any]) -> list[Any]:
    result = list(base)
    for item in patch:
        if item not in result:
            result.append(item)
    return result
