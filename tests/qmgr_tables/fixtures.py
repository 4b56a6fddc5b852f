"""Snapshots that many tests read."""

import tarfile
from pathlib import Path

import pytest

from tests.qmgr_tables import office as offices
from tests.qmgr_tables.snapshots import make

FORMAT_1 = Path(__file__).parent / "data/format-1.tar.xz"


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with messages of all kinds. A test must copy it before changing it."""
    return make(tmp_path_factory.mktemp("snapshots"))


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot without messages."""
    return make(tmp_path_factory.mktemp("empty"), "QM0", empty=True)


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with rows for every table. A test must copy it before changing it."""
    return offices.make(tmp_path_factory.mktemp("office"))


@pytest.fixture(scope="session")
def format_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot of manifest format 1, written by a version that used this format."""
    directory = tmp_path_factory.mktemp("format-1")
    with tarfile.open(FORMAT_1) as archive:
        # Python before 3.11.4 has no filter. The archive is our own.
        if hasattr(tarfile, "data_filter"):
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(directory)
    (manifest,) = directory.rglob("manifest.json")
    return manifest.parent
