"""The sources of a stream: running queue managers, or their snapshots.

An offset has the last row of history that was read from each store: {store id: number}. For
messages, an offset has the last arrival number of each queue: {store id/queue id: number}. A new
store or queue first appears in an offset with its start position. The data between two offsets
therefore never depends on the time of the request.
"""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from qmgr_tables.options import Options

# number of the last row of history, or of the last arrival, that was read, by name of the store or
# queue
Offsets = dict[str, int]


class StreamPart(Protocol):
    """The part of a stream that one task reads. Spark sends the part to the task by pickle."""

    def read(self, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the part. Their snapshot_id is null for all sources."""
        ...


class Source(Protocol):
    """The data of a stream: histories or queues."""

    def begin(self) -> Offsets:
        """Returns the start of a stream without a checkpoint. History is kept from the start on.

        While the data does not change, all calls before the first batch return the same start.
        """
        ...

    def lasts(self) -> Offsets:
        """Returns the last number of each store or queue. Waits for unavailable queue managers."""
        ...

    def ends(self, start: Offsets, *, wait: bool) -> Offsets:
        """Returns the end positions of the data that can be read now.

        Args:
            start: The current offsets. Unavailable sources keep their offsets. New sources get
                their start position, and deleted sources are omitted.
            wait: Whether to wait for unavailable queue managers.

        Raises:
            DataLost: Data after *start* is lost.
            ManagerAway: A queue manager has been unavailable for too long.
        """
        ...

    def sizes(self, name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yields the number, the rows and the bytes of each row after *after* up to *until*."""
        ...

    def parts(self, start: Offsets, end: Offsets, options: Options) -> list[StreamPart]:
        """Returns parts that cover all data after *start* up to *end* once.

        Each call returns the same rows, except for messages that were consumed in the meantime.
        """
        ...

    def commit(self, end: Offsets) -> None:
        """Releases the data that a stream has stored. The call may be repeated."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...
