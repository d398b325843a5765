"""A fresh emulator for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.deploy.cloud import Cloud, Emulators


@pytest.fixture(scope="session")
def emulators() -> Iterator[Emulators]:
    """What starts accounts."""
    started = Emulators()
    yield started
    started.close()


@pytest.fixture
def account(emulators: Emulators, tmp_path: Path) -> Iterator[Cloud]:
    """An empty account of the test's own."""
    with emulators.cloud(tmp_path) as started:
        yield started
