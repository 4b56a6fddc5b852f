"""One snapshot and one Spark session for all tests of the Spark source."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.session import local_session
from tests.qmgr_tables.fixtures import empty, format_1, office, snapshot

__all__ = ["empty", "format_1", "office", "snapshot", "spark"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("tests of pyspark_qmgr", quick=True)
    yield session
    session.stop()
