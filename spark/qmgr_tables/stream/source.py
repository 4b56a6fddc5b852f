"""The sources of a stream: running queue managers, or snapshots of them.

An offset has the last row of history that was read from each store: {store id: number}; for
messages, the last arrival of each queue: {store id/queue id: number}. A new store or queue first
appears in an offset with its start position. So the data between two offsets never depends on the
time of the request.
"""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from qmgr_tables.options import Options

Offsets = dict[str, int]  # the last row of history, or arrival, that was read


class StreamPart(Protocol):
    """The part that one task reads. Spark sends it there by pickle."""

    def read(self, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields its rows; their snapshot_id is null, wherever they are from."""
        ...


class Source(Protocol):
    """The data of a stream: journals, or queues."""

    def begin(self) -> Offsets:
        """Returns where a stream without a checkpoint begins; history is kept from there on.

        For the same data, the result is the same until the first batch is written.
        """
        ...

    def lasts(self) -> Offsets:
        """Returns the last number of each store or queue, waiting for queue managers."""
        ...

    def ends(self, start: Offsets, *, wait: bool) -> Offsets:
        """Returns up to where data can be read now.

        Args:
            start: the current offsets; unavailable sources keep theirs. New sources get their
                start position, deleted ones are left out.
            wait: whether to wait for unavailable queue managers.

        Raises:
            DataLost: data after *start* is lost.
            ManagerAway: a queue manager has been unavailable for too long.
        """
        ...

    def sizes(self, name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yields number, rows and bytes of the data after *after* up to *until*."""
        ...

    def parts(self, start: Offsets, end: Offsets, options: Options) -> list[StreamPart]:
        """Returns parts with all data after *start* up to *end*, once.

        The rows are the same at each call, except that consumed messages are missing.
        """
        ...

    def commit(self, end: Offsets) -> None:
        """Releases the data that a stream has stored. May be repeated."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...
