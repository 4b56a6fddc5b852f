"""Snapshots that many tests read."""

from pathlib import Path

import pytest

from tests.qmgr_tables.snapshots import make


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with messages of all kinds. Not to be changed: copy it."""
    return make(tmp_path_factory.mktemp("snapshots"))


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot without a message."""
    return make(tmp_path_factory.mktemp("empty"), "QM0", empty=True)
