"""Label selectors, as the API server evaluates them."""

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector matches; an empty one matches all, an absent one nothing."""
    if selector is None:
        return False
    plain: Mapping[str, str] = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in plain.items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = term["key"], term.get("values") or ()
    match term["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
