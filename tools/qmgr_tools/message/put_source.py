"""Reads the messages to put: a BODY, a file, standard input, or the lines of an input."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from qmgr_tools.cli.failure import Exit, Failure, usage

LINES_AT_A_TIME = 1_000


def check(doing: str, body: bool, file: bool, *, stdin: bool, lines: bool, uid: bool) -> None:
    """Raises a Failure with USAGE unless exactly one source of messages is given.

    Args:
        doing: The task, as in "put on ORDERS".
        body, file, stdin, lines, uid: Whether the user gave these options.
    """
    cannot = f"cannot {doing}"
    if body + file + stdin > 1:
        raise usage(cannot, "BODY, --file and --stdin exclude each other", "use one of them")
    if lines and body:
        raise usage(cannot, "--lines reads --file or standard input, not a BODY")
    if lines and uid:
        raise usage(cannot, "--uid applies to one message, but --lines puts many")
    if not (body or file or stdin or lines):
        remedy = "use a BODY, --file FILE, or --stdin to read a pipe"
        raise usage(cannot, "no message is given", remedy)


def read(body: str | None, file: Path | None) -> bytes:
    """Returns *body* if given, else the contents of *file* if given, else standard input.

    Raises:
        Failure: FAILED if the file cannot be read.
    """
    if body is not None:
        return body.encode(errors="surrogateescape")
    if file is None:
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from None


def opened(file: Path | None) -> tuple[BinaryIO, int | None]:
    """Returns *file* or, if None, standard input, opened for reading, and the size if known.

    Raises:
        Failure: FAILED if the file cannot be opened.
    """
    if file is None:
        return sys.stdin.buffer, None
    try:
        return file.open("rb"), file.stat().st_size
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> Failure:
    return Failure(Exit.FAILED, f"cannot read {file}", error.strerror or str(error))


def batches(source: BinaryIO, *, has_last: bool) -> Iterator[tuple[list[bytes], bool]]:
    """Yields batches of the lines of *source*, without line ends, and a flag.

    With *has_last* the flag marks the last batch. To determine the flag, the next batch is read
    before a batch is yielded.
    """
    batch = _lines(source)
    while batch:
        following = _lines(source) if has_last else None
        yield batch, following == []
        batch = _lines(source) if following is None else following


def _lines(source: BinaryIO) -> list[bytes]:
    return [line.removesuffix(b"\n") for line in islice(source, LINES_AT_A_TIME)]
