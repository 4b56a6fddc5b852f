"""Waits a moment for a daemon that is starting: commands pasted behind its start find it.

Only a place where nobody listens is tried again: a refused connection, a missing socket, a data
directory without listening.json. Everything else fails at once.
"""

import errno
import os
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import typer

from qmgr_tools.cli import option, output
from qmgr_tools.cli.failure import NotListening, usage

PATIENCE_MS = 3_000  # A script that asks whether a daemon is down has its answer then.
ENVIRONMENT = "QMCTL_PATIENCE"  # a time such as 30s in place of that; 0: tries once
QUIET_MS = 1_000  # before the user is told
AGAIN_S = 0.05
# What a dial reports (ConnectFailed.why) where nobody listens.
NOBODY = tuple(map(os.strerror, (errno.ECONNREFUSED, errno.ENOENT)))

Value = TypeVar("Value")


def patience_ms(environment: Mapping[str, str]) -> int:
    """Return for how long a place where nobody listens is tried again.

    Raises:
        Failure: USAGE, the environment names no time.
    """
    said = environment.get(ENVIRONMENT)
    if not said:
        return PATIENCE_MS
    try:
        return option.wait(said)
    except typer.BadParameter as error:
        raise usage(f"{ENVIRONMENT} is not a time", str(error), "as in 10s, or 0") from None


def waited(dial: Callable[[], Value], wait_ms: int) -> Value:
    """Return what *dial* returns; while it raises NotListening, try again for *wait_ms*.

    Raises:
        NotListening: the last one.
    """
    started_s, is_told = time.monotonic(), False
    while True:
        try:
            return dial()
        except NotListening as failure:
            waited_ms = (time.monotonic() - started_s) * 1_000
            if waited_ms >= wait_ms:
                raise
            if waited_ms >= QUIET_MS and not is_told:
                output.note(f"waiting up to {wait_ms / 1000:g} s: {failure.parts[1]}")
                is_told = True
        time.sleep(AGAIN_S)
