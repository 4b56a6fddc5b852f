"""Puts a message for each line of a file or standard input, in batches."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qmgr_protocol.errors import RequestError
from qmgr_tools.cli import output, progress
from qmgr_tools.cli.humanize import messages
from qmgr_tools.message import grouping, put_source

if TYPE_CHECKING:
    from qmgr_tools.cli.command import Call

RATED_S, RATED_MESSAGES = 1.0, 10_000  # minimum time or number of messages to show a rate


class Done(NamedTuple):
    """The result of putting lines."""

    messages: int  # number of lines, including refused ones
    size_bytes: int
    refusals: list[RequestError]
    seconds: float
    subscriptions: set[int | None]  # numbers of subscriptions that the publications matched

    @property
    def rate(self) -> str:
        """The rate in words, or "" if a rate would not be meaningful."""
        is_rated = self.seconds >= RATED_S or self.messages >= RATED_MESSAGES
        return f", {self.messages / self.seconds:,.0f} a second" if is_rated else ""


def put(
    call: "Call", doing: str, destination: str, file: Path | None, properties: dict[str, Any]
) -> Done:
    """Puts each line of *file* or standard input with these *properties*.

    Raises:
        Failure: If the file cannot be read, or the daemon cannot be reached.
    """
    from qmgr_client.message import Outgoing  # The import takes 60 ms.

    started_s = time.monotonic()
    done, size, refusals, fits = 0, 0, list[RequestError](), set[int | None]()
    has_last = bool((place := properties["group"]) and place[-1])
    source, total = put_source.opened(file)
    with source, call.client(doing) as client, progress.bar(destination, total) as bar:
        try:
            for batch, is_end in put_source.batches(source, has_last=has_last):
                outgoing = [Outgoing(line, **properties) for line in batch]
                numbered = grouping.numbered(outgoing, done, is_end=is_end)
                for result in client.put_many(destination, numbered):
                    if isinstance(result, RequestError):
                        refusals.append(result)
                    else:
                        fits.add(result.subscriptions)
                done += len(batch)
                size += sum(map(len, batch))
                bar.advance(len(batch), sum(map(len, batch)) + len(batch))
        except KeyboardInterrupt:
            stored = messages(done - len(refusals))
            most = put_source.LINES_AT_A_TIME
            output.note(f"interrupted: {stored} put, and possibly some of the next {most} lines")
            raise
    return Done(done, size, refusals, time.monotonic() - started_s, fits)
