from typing import Any

import pytest

from neuronfleet.serving.controller.plugin.selectors import selects

LABELS = {"a": "1", "b": "2"}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "1", "b": "1"}}, False),
        (term("a", "In", "1", "2"), True),
        (term("a", "In", "3"), False),
        (term("c", "NotIn", "3"), True),
        (term("a", "NotIn", "1"), False),
        (term("a", "Exists"), True),
        (term("c", "Exists"), False),
        (term("c", "DoesNotExist"), True),
        (term("a", "DoesNotExist"), False),
        (term("a", "Guess"), False),
    ],
)
def test_a_selector_matches_as_the_api_says(selector: dict[str, Any] | None, holds: bool) -> None:
    assert selects(selector, LABELS) is holds
