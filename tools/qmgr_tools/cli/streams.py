"""Standard input, output and error as a command may count on them, whatever it was started with."""

import io
import os
import sys


def complete() -> None:
    """Open what the caller closed (>&-), and show what the output's encoding lacks as an escape.

    A closed input is empty. A closed output cannot be written, so that who gets a message that
    nobody can have seen does not acknowledge it.
    """
    for number, name, flags in (
        (0, "stdin", os.O_RDONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            _open(number, flags)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _open(number: int, flags: int) -> None:
    found = os.open(os.devnull, flags)
    if found != number:
        os.dup2(found, number)
        os.close(found)
