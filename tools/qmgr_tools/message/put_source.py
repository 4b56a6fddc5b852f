"""What is put: a BODY, what a file holds, what comes on standard input, or the lines of these."""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from qmgr_tools.cli.failure import Exit, Failure, usage

LINES_AT_A_TIME = 1_000


def check(doing: str, body: bool, file: bool, *, stdin: bool, lines: bool, uid: bool) -> None:
    """Raise a Failure, USAGE, where what is put is not said in exactly one way.

    Args:
        doing: as in "put on ORDERS".
        body, file, stdin, lines, uid: whether each is given.
    """
    cannot = f"cannot {doing}"
    if body + file + stdin > 1:
        raise usage(cannot, "exactly one of BODY, --file and --stdin is the message")
    if lines and body:
        raise usage(cannot, "--lines puts the lines of --file or of standard input, not a BODY")
    if lines and uid:
        raise usage(cannot, "--uid names one message, --lines puts many")
    if not (body or file or stdin or lines):
        remedy = "give a BODY, --file FILE, or --stdin for what comes through a pipe"
        raise usage(cannot, "no message is given", remedy)


def read(body: str | None, file: Path | None) -> bytes:
    """Return the *body*, or else what *file* holds, or else standard input.

    Raises:
        Failure: FAILED, the file cannot be read.
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
    """Return *file*, or else standard input, to read from; and how many bytes it has, if known.

    Raises:
        Failure: FAILED, it cannot be read.
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
    """Yield the lines of *source*, without their ends, a batch at a time.

    With *has_last* also whether no more follow, for which each waits for the next.
    """
    batch = _lines(source)
    while batch:
        following = _lines(source) if has_last else None
        yield batch, following == []
        batch = _lines(source) if following is None else following


def _lines(source: BinaryIO) -> list[bytes]:
    return [line.removesuffix(b"\n") for line in islice(source, LINES_AT_A_TIME)]
