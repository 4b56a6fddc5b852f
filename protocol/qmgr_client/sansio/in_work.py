"""What the application has of one consumer and has not settled: its leases start, and go on.

    handed over ──5 ms──▶ started ──▶ renewed, again and again, if that was asked for
         └────────settled─────┴──────────▶ forgotten

A lease starts when the queue manager is told of it: by its first renewal. What is settled soon is
not told of, so that fast work costs no frames. But the first of every 100 ms starts before the
application has it: an application that dies of a message at once dies of it as the first one, too,
as soon as it was started again, and that delivery counts.
"""

START_AFTER_MS = 5
AT_ONCE_EVERY_MS = 100
LEFT_MIN_MS = 2_000  # less than this, or half its time, is left of a lease: it starts at once


class InWork:
    """Handles of messages, with the ids of their queues."""

    __slots__ = ("_at_once_ms", "_auto_renew", "_fresh", "_started")

    def __init__(self, *, auto_renew: bool) -> None:
        self._auto_renew = auto_renew
        self._at_once_ms = 0  # from when on one is to start at once
        self._fresh: dict[bytes, tuple[int, int]] = {}  # and when they are to be started
        self._started: dict[bytes, int] = {}  # if they are to be renewed

    def __bool__(self) -> bool:
        """Whether anything is to be started, or to go on."""
        return bool(self._fresh or self._started)

    @property
    def has_fresh(self) -> bool:
        """Whether leases are to be started."""
        return bool(self._fresh)

    def starts_at_once(self, now_ms: int) -> bool:
        """Return whether the next lease is to start before the application has its message."""
        return now_ms >= self._at_once_ms

    def handed_over(
        self, handle: bytes, queue_id: int, lease_ms: int, until_ms: int, now_ms: int
    ) -> None:
        """Take note that the application has a message, under a lease that ends at *until_ms*."""
        left_ms = until_ms - now_ms
        is_late = left_ms < LEFT_MIN_MS or 2 * left_ms < lease_ms
        self._fresh[handle] = queue_id, now_ms if is_late else now_ms + START_AFTER_MS

    def start_at_once(self, handle: bytes, queue_id: int, now_ms: int) -> None:
        """Have a lease start now, whoever has its message."""
        self._fresh[handle] = queue_id, now_ms
        self._at_once_ms = now_ms + AT_ONCE_EVERY_MS

    def renewed(self, handle: bytes) -> None:
        """Take note that the application renews a lease itself, which starts it."""
        fresh = self._fresh.pop(handle, None)
        if fresh is not None and self._auto_renew:
            self._started[handle] = fresh[0]

    def forget(self, handle: bytes) -> None:
        """Take note that a message is settled, or its lease over."""
        if self._fresh.pop(handle, None) is None:
            self._started.pop(handle, None)

    def clear(self) -> None:
        """Take note that all leases are over."""
        self._fresh.clear()
        self._started.clear()
        self._at_once_ms = 0

    def start(self, now_ms: int) -> list[tuple[int, bytes]]:
        """Return queue id and handle of each message whose lease starts now."""
        due = [(x[0], handle) for handle, x in self._fresh.items() if x[1] <= now_ms]
        for queue_id, handle in due:
            del self._fresh[handle]
            if self._auto_renew:
                self._started[handle] = queue_id
        return due

    def started(self) -> list[tuple[int, bytes]]:
        """Return queue id and handle of each message whose lease goes on by itself."""
        return [(queue_id, handle) for handle, queue_id in self._started.items()]
