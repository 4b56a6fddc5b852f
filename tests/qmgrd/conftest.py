"""A closed store that has rows of all kinds."""

import shutil
from pathlib import Path

import pytest

from tests.qmgr_tables.fixtures import empty, snapshot
from tests.qmgrd.snapshot import stores

__all__ = ["empty", "snapshot", "sound", "store"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid data directory, which tests must not change."""
    directory = stores.filled(tmp_path_factory.mktemp("stores") / "sound")
    stores.change(directory, *stores.MORE)
    return directory


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    """A data directory that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "store"))
