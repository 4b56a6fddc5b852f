"""How far a child process is, told through a file that has no name: nobody waits for anybody.

The child writes three numbers to its start, in one system call; the daemon reads them when asked.
"""

import os
import struct
from enum import IntEnum
from typing import NamedTuple

_STATE = struct.Struct("<QQQ")


class Phase(IntEnum):
    """What the child is at."""

    STARTING = 0
    WRITING = 1
    COUNTING = 2  # what it has written
    UPLOADING = 3


class State(NamedTuple):
    """How far it is."""

    phase: Phase
    done_bytes: int
    total_bytes: int  # about, while it is written


class Progress:
    """The writing end, in the child."""

    def __init__(self, fd: int, total_bytes: int) -> None:
        """Tells by the file *fd*, or nobody where that is below 0."""
        self._fd = fd
        self._total_bytes = total_bytes

    def tell(self, phase: Phase, done_bytes: int) -> None:
        """Says how far it is."""
        if self._fd >= 0:
            total_bytes = max(self._total_bytes, done_bytes)
            os.pwrite(self._fd, _STATE.pack(phase, done_bytes, total_bytes), 0)


def read(fd: int) -> State:
    """Returns how far the child is that was handed *fd*."""
    data = os.pread(fd, _STATE.size, 0)
    if len(data) < _STATE.size:
        return State(Phase.STARTING, 0, 0)
    phase, done_bytes, total_bytes = _STATE.unpack(data)
    return State(Phase(phase), done_bytes, total_bytes)
