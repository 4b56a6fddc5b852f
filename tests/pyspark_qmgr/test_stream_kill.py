"""Tests of the campaign with few cycles, and tests that it detects broken streams."""

import asyncio
from pathlib import Path

import pytest

from tests.pyspark_qmgr.stream_broken import BROKEN
from tests.pyspark_qmgr.stream_kill import run

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]


def test_output_is_the_history_after_kills(tmp_path: Path) -> None:
    assert asyncio.run(run(tmp_path, 2, 7, "local[2]", None)) == []


@pytest.mark.parametrize("broken", ["skips-first"])
def test_stream_that_is_wrong_is_found(tmp_path: Path, broken: str) -> None:
    assert broken in BROKEN
    assert asyncio.run(run(tmp_path, 1, 7, "local[2]", broken)) != []
