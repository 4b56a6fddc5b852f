"""The shares of links in the dead-letter queue.

Links fill the queue up to 1/16 of the store. A link may add dead letters while it has added at most
as many bytes as this limit leaves free. So no link can fill the queue for the others: the first one
fills half of it, a second one then a quarter, and so on.

The bytes of a link are counted in memory, from the start of the daemon. The count does not fall
when dead letters leave, but it never exceeds the size of the queue. After a restart, a link may
fill half of the rest.
"""

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.queue.queue import Queue

MAP_SHARE = 16  # the share of the store that links may fill with dead letters is 1/16
PEERS_MAX = 10_000  # peers that are counted; above it, all counts are forgotten


class LinkShares:
    """The bytes of dead letters that each peer has added."""

    def __init__(self) -> None:
        self._added: dict[str, int] = {}

    def check(self, queue: Queue, peer: str, map_bytes: int) -> None:
        """Raises RequestError QUEUE_BYTES_FULL if *peer* may add no more to *queue*.

        Args:
            queue: The dead-letter queue.
            peer: The queue manager that sent the message.
            map_bytes: The size of the store.
        """
        limit_bytes, used_bytes = map_bytes // MAP_SHARE, queue.counters.bytes
        if len(self._added) > PEERS_MAX:
            self._added.clear()
        added_bytes = self._added[peer] = min(self._added.get(peer, 0), used_bytes)
        if used_bytes < limit_bytes and added_bytes <= limit_bytes - used_bytes:
            return
        raise RequestError(
            ErrorCode.QUEUE_BYTES_FULL,
            f"queue {queue.name} has {used_bytes} bytes, of which up to {added_bytes} are from "
            f"{peer}; links may fill it up to {limit_bytes} bytes, 1/{MAP_SHARE} of "
            "store.map_bytes, and one link at most as much as it leaves free",
        )

    def add(self, peer: str, size_bytes: int) -> None:
        """Counts a dead letter of *peer*, after :meth:`check`."""
        self._added[peer] += size_bytes
