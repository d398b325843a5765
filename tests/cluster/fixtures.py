"""Fixtures for tests that need a cluster: import them into a conftest.py."""

import os
import secrets
from collections.abc import Iterator

import pytest

from tests.cluster import lifecycle
from tests.cluster.cluster import FOREIGN, Cluster, open_cluster

KEEP = "NEURONFLEET_CLUSTER_KEEP"
"""Environment variable: any value leaves the cluster up after the tests that started it."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster; taken down after the session unless it stood before or is to be kept."""
    stays = bool(os.environ.get(FOREIGN) or os.environ.get(KEEP)) or lifecycle.stands() is not None
    yield open_cluster()
    if not stays:
        left = lifecycle.down()
        assert not left, "left on the machine: " + "; ".join(left)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A new namespace, deleted after the test."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")
