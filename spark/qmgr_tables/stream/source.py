"""What a stream reads from: queue managers that run, or snapshots of them.

An offset says of each store up to which row of history a stream has come: {store id: number}; of
messages, of each queue up to which arrival: {store id/queue id: number}. What is new to a stream is
in an offset first with what it begins behind, so what lies between two offsets never depends on
when it is asked.
"""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from qmgr_tables.options import Options

Offsets = dict[str, int]  # the last row of history, or arrival, that is had


class Part(Protocol):
    """What one task reads. It travels there by pickle."""

    def read(self, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields its rows; their snapshot_id is null, wherever they are from."""
        ...


class Source(Protocol):
    """What a stream reads: journals, or queues."""

    def begin(self) -> Offsets:
        """Returns what a stream without a checkpoint begins behind; from here on history is kept.

        Of what is there both times, the same again until the first batch is written.
        """
        ...

    def lasts(self) -> Offsets:
        """Returns the last number of each that there is, waiting for queue managers."""
        ...

    def ends(self, start: Offsets, *, wait: bool) -> Offsets:
        """Returns up to where there is something to read now.

        Args:
            start: what the stream has; of what cannot be asked now it is answered again. What is
                not in it is answered with what to begin behind, and what is gone not at all.
            wait: whether queue managers are waited for that are away.

        Raises:
            DataLost: what comes after *start* is not there any more.
            ManagerAway: a queue manager has been away for too long.
        """
        ...

    def sizes(self, name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yields number, rows and bytes of what is behind *after* up to *until*."""
        ...

    def parts(self, start: Offsets, end: Offsets, options: Options) -> list[Part]:
        """Returns what has all behind *start* up to *end* once.

        The same rows whenever asked; of messages, those that are still there.
        """
        ...

    def commit(self, end: Offsets) -> None:
        """Lets go of what a stream has for good. Any number of times."""
        ...

    def close(self) -> None:
        """Lets go of connections."""
        ...
