"""Fixtures for tests of the whole project on a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.image_build import ImageRef, build_all
from tests.cluster.prometheus import Prometheus
from tests.cluster.stack import Stack


@pytest.fixture(scope="session")
def images(cluster: Cluster) -> dict[str, ImageRef]:
    """The project's images, built and brought to the real node."""
    if why := cluster.lacks("local"):
        pytest.skip(why)
    built = build_all()
    there = cluster.images()
    for one in built.values():
        if one.reference not in there:
            cluster.import_image(one.archive)
    return built


@pytest.fixture(scope="session")
def stack(
    cluster: Cluster, images: dict[str, ImageRef], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """An installation that all tests of a session share; each has fleets of its own."""
    directory: Path = tmp_path_factory.mktemp("stack")
    prometheus = Prometheus(cluster, directory)
    prometheus.start()
    made = Stack(cluster=cluster, prometheus=prometheus, images=images, directory=directory)
    try:
        made.install()
        yield made
    finally:
        made.remove()
        prometheus.stop()


@pytest.fixture
def fleets(stack: Stack) -> Iterator[Stack]:
    """The installation; whatever fleets a test leaves are taken away after it."""
    yield stack
    stack.clear()
