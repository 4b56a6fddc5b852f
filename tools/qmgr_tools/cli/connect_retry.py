"""Waits for a daemon that is starting, so that commands right after its start reach it.

Only an address at which nobody listens is retried: a refused connection, a missing socket, a data
directory without listening.json. Every other error fails at once.
"""

import errno
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import typer

from qmgr_tools.cli import option, output
from qmgr_tools.cli.failure import NotListening, usage

PATIENCE_MS = 3_000  # short enough for scripts that check whether a daemon is down
ENVIRONMENT = "QMCTL_PATIENCE"  # overrides PATIENCE_MS, as in 30s; 0: one attempt
QUIET_MS = 1_000  # before the user sees a note
PAUSE_S = 0.05
# ConnectFailed.why if nobody listens.
NOBODY = tuple(map(os.strerror, (errno.ECONNREFUSED, errno.ENOENT)))

Value = TypeVar("Value")


def patience_ms(environment: Mapping[str, str]) -> int:
    """Return how long to retry an address at which nobody listens.

    Raises:
        Failure: USAGE, the environment variable is not a time.
    """
    given = environment.get(ENVIRONMENT)
    if not given:
        return PATIENCE_MS
    try:
        return option.wait(given)
    except typer.BadParameter as error:
        raise usage(
            f"{ENVIRONMENT} is not a time", str(error), "use a time as in 10s, or 0"
        ) from None


def retried(connect: Callable[[], Value], wait_ms: int) -> Value:
    """Return the result of *connect*; while it raises NotListening, retry for *wait_ms*.

    Raises:
        NotListening: the last one.
    """
    started_s, is_noted = time.monotonic(), False
    while True:
        try:
            return connect()
        except NotListening as failure:
            waited_ms = (time.monotonic() - started_s) * 1_000
            if waited_ms >= wait_ms:
                raise
            if waited_ms >= QUIET_MS and not is_noted:
                output.note(f"retrying for up to {wait_ms / 1000:g} s: {failure.parts[1]}")
                is_noted = True
        time.sleep(PAUSE_S)
