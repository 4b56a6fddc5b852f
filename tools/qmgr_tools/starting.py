"""Waits a moment for a daemon that is starting: commands pasted behind its start find it.

Only a place where nobody listens is tried again: a refused connection, a missing socket, a data
directory without listening.json. Everything else fails at once.
"""

import errno
import os
import time
from collections.abc import Callable
from typing import TypeVar

from qmgr_tools import output
from qmgr_tools.failure import NotListening

PATIENCE_MS = 3_000  # A script that asks whether a daemon is down has its answer then.
QUIET_MS = 1_000  # before the user is told
AGAIN_S = 0.05
# What a dial reports (ConnectFailed.why) where nobody listens.
NOBODY = tuple(map(os.strerror, (errno.ECONNREFUSED, errno.ENOENT)))

Value = TypeVar("Value")


def waited(dial: Callable[[], Value], patience_ms: int) -> Value:
    """Return what *dial* returns; while it raises NotListening, try again for *patience_ms*.

    Raises:
        NotListening: the last one.
    """
    started_s, is_told = time.monotonic(), False
    while True:
        try:
            return dial()
        except NotListening as failure:
            waited_ms = (time.monotonic() - started_s) * 1_000
            if waited_ms >= patience_ms:
                raise
            if waited_ms >= QUIET_MS and not is_told:
                output.note(f"waiting up to {patience_ms / 1000:g} s: {failure.parts[1]}")
                is_told = True
        time.sleep(AGAIN_S)
