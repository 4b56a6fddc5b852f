"""Opens standard input, output and error if the caller closed them."""

import io
import os
import sys


def complete() -> None:
    """Opens closed streams (>&-), and escapes characters that the output's encoding lacks.

    A closed input is empty. A write to a closed output fails, so qmctl get does not acknowledge a
    message that was not printed.
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
