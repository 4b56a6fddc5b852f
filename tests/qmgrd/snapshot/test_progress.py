"""Tests of the progress reports of a child process."""

import os
from collections.abc import Iterator

import pytest

from qmgrd.snapshot.progress import Phase, ProgressWriter, WriterProgress, read


@pytest.fixture
def fd() -> Iterator[int]:
    made = os.memfd_create("test")
    yield made
    os.close(made)


def test_nothing_is_reported_at_first(fd: int) -> None:
    assert read(fd) == WriterProgress(Phase.STARTING, 0, 0)


def test_last_word_counts(fd: int) -> None:
    progress = ProgressWriter(fd, 100)
    progress.report(Phase.WRITING, 7)
    assert read(fd) == WriterProgress(Phase.WRITING, 7, 100)
    progress.report(Phase.UPLOADING, 3)
    assert read(fd) == WriterProgress(Phase.UPLOADING, 3, 100)


def test_more_than_was_expected_is_the_whole(fd: int) -> None:
    ProgressWriter(fd, 100).report(Phase.WRITING, 130)
    assert read(fd) == WriterProgress(Phase.WRITING, 130, 130)


def test_nobody_need_listen() -> None:
    ProgressWriter(-1, 100).report(Phase.WRITING, 7)
