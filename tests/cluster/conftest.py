"""The cluster for the tests of its own harness."""

from pathlib import Path

import pytest

from tests.cluster.fixtures import cluster as cluster
from tests.cluster.fixtures import namespace as namespace
from tests.cluster.stack_fixtures import fleets as fleets
from tests.cluster.stack_fixtures import images as images
from tests.cluster.stack_fixtures import stack as stack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes the cluster away: nothing of a session stands on it yet."""
    first = Path(__file__).with_name("test_down.py")
    items.sort(key=lambda item: item.path != first)
