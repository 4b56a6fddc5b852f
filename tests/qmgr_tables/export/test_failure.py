"""Tests of the error messages of an export."""

import errno
import os

import pytest

from qmgr_tables.export.failure import failure_of


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (
            errno.ENOSPC,
            "DIR: No space left on device; free some space, and run the export again: it continues",
        ),
        (errno.EACCES, "DIR: Permission denied; give this user write access, or choose another"),
        (errno.EIO, "DIR: Input/output error; check the disk, and run the export again"),
    ],
)
def test_an_error_of_the_disk_says_what_to_do(number: int, text: str) -> None:
    error = OSError(number, os.strerror(number))
    assert str(failure_of("DIR", error)).startswith(text)


def test_an_error_without_a_number_says_what_it_knows() -> None:
    assert str(failure_of("s3://x", OSError("no such bucket"))).startswith("s3://x: no such bucket")
