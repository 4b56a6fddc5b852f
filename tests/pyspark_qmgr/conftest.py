"""One snapshot and one Spark session for all tests of the Spark source."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.session import local_session
from tests.pyspark_qmgr.snapshots import make


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot with messages of all kinds. Not to be changed: copy it."""
    return make(tmp_path_factory.mktemp("snapshots"))


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot without a message."""
    return make(tmp_path_factory.mktemp("empty"), "QM0", empty=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("tests of pyspark_qmgr")
    yield session
    session.stop()
