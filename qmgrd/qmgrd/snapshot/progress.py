"""The progress of a child process, reported through an unnamed file so that neither side waits.

The child writes three numbers to the start of the file in one system call. The daemon reads them on
demand.
"""

import os
import struct
from enum import IntEnum
from typing import NamedTuple

_STATE = struct.Struct("<QQQ")


class Phase(IntEnum):
    """The current phase of the child's work."""

    STARTING = 0
    WRITING = 1
    COUNTING = 2  # the child counts the content of the written file
    UPLOADING = 3


class WriterProgress(NamedTuple):
    """The progress of the child."""

    phase: Phase
    done_bytes: int
    total_bytes: int  # an estimate while the file is being written


class ProgressWriter:
    """The writing end, in the child."""

    def __init__(self, fd: int, total_bytes: int) -> None:
        """Reports through the file *fd*, or not at all if *fd* is negative."""
        self._fd = fd
        self._total_bytes = total_bytes

    def report(self, phase: Phase, done_bytes: int) -> None:
        """Writes the progress."""
        if self._fd >= 0:
            total_bytes = max(self._total_bytes, done_bytes)
            os.pwrite(self._fd, _STATE.pack(phase, done_bytes, total_bytes), 0)


def read(fd: int) -> WriterProgress:
    """Returns the progress of the child that received *fd*."""
    data = os.pread(fd, _STATE.size, 0)
    if len(data) < _STATE.size:
        return WriterProgress(Phase.STARTING, 0, 0)
    phase, done_bytes, total_bytes = _STATE.unpack(data)
    return WriterProgress(Phase(phase), done_bytes, total_bytes)
