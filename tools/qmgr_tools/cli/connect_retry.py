"""Waits for a daemon that is starting, so that commands right after the start succeed.

An address is retried only if no daemon listens there: the connection is refused, the socket is
missing, or the data directory has no listening.json. It is also retried if a standby listens there,
and no other address has the active queue manager. After any other error, the command fails
immediately.
"""

import errno
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import typer

from qmgr_tools.cli import option, output
from qmgr_tools.cli.failure import NotListening, usage

PATIENCE_MS = 3_000  # short enough for scripts that detect whether a daemon is down
ENVIRONMENT = "QMCTL_PATIENCE"  # overrides PATIENCE_MS, as in 30s; 0 means one attempt
QUIET_MS = 1_000  # time after which a note is shown
PAUSE_S = 0.05
# the ends of ConnectFailed.why if no daemon listens
_NOBODY = tuple(map(os.strerror, (errno.ECONNREFUSED, errno.ENOENT)))

Value = TypeVar("Value")


def is_nobody(why: str) -> bool:
    """Returns whether *why* of ConnectFailed states that no daemon listens at any address."""
    return all(reason.endswith(_NOBODY) for reason in why.split("; "))


def patience_ms(environment: Mapping[str, str]) -> int:
    """Returns the time for which an address is retried if no daemon listens there.

    Raises:
        Failure: USAGE if the environment variable is not a valid duration.
    """
    given = environment.get(ENVIRONMENT)
    if not given:
        return PATIENCE_MS
    try:
        return option.wait(given)
    except typer.BadParameter as error:
        raise usage(
            f"invalid {ENVIRONMENT}", str(error), "set it to a duration such as 10s, or 0"
        ) from None


def retried(connect: Callable[[], Value], wait_ms: int) -> Value:
    """Returns the result of *connect*. Retries NotListening for *wait_ms*.

    Raises:
        NotListening: The failure of the last attempt.
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
