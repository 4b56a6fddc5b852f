"""What a stream of history reads from: queue managers that run, or snapshots of them.

An offset says of each store up to which row of history a stream has come: {store id: number}. A
store that is new to a stream is in an offset first with what it begins behind, so what lies
between two offsets never depends on when it is asked.
"""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from qmgr_tables.options import Options

Offsets = dict[str, int]  # store id: the last row of history that is had


class Part(Protocol):
    """What one task reads. It travels there by pickle."""

    def read(self, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield its events; their snapshot_id is null, wherever they are from."""
        ...


class Source(Protocol):
    """The journals that a stream reads."""

    def begin(self) -> Offsets:
        """Return what a stream without a checkpoint begins behind; from here on it is kept.

        The same again until the first batch is written.
        """
        ...

    def lasts(self) -> Offsets:
        """Return the last row of history of each store, waiting for queue managers."""
        ...

    def ends(self, start: Offsets, *, wait: bool) -> Offsets:
        """Return up to where history can be read now of each store that can be asked.

        Args:
            start: what the stream has. A store that is not in it is answered with what to begin
                behind.
            wait: whether queue managers are waited for that are away.

        Raises:
            HistoryLost: what comes after *start* is not there any more.
            ManagerAway: a queue manager has been away for too long.
        """
        ...

    def sizes(self, store_id: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yield number, events and bytes of the rows behind *after* up to *until*."""
        ...

    def parts(self, start: Offsets, end: Offsets, options: Options) -> list[Part]:
        """Return what has each row behind *start* up to *end* once; the same whenever asked."""
        ...

    def commit(self, end: Offsets) -> None:
        """Let go of what a stream has for good. Any number of times."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
