"""The leases of the messages that the application has received from one consumer.

    handed over ──5 ms──▶ started ──▶ renewed repeatedly, with auto_renew
         └────────settled─────┴──────────▶ forgotten

The first renewal of a lease starts the lease: from then on, its time runs at the queue manager. A
message that is settled within 5 ms needs no renewal. A fast application therefore does not cause
extra frames.

Once every 100 ms, however, a lease starts before the application receives the message. Suppose that
a message crashes the application immediately, and again right after a restart. Each of these
deliveries then counts.
"""

START_AFTER_MS = 5
START_EARLY_EVERY_MS = 100
# A lease starts immediately if less than this time, or less than half of its time, is left.
LEFT_MIN_MS = 2_000


class ActiveLeases:
    """The handles of messages that have leases to start or renew, with the ids of their queues."""

    __slots__ = ("_auto_renew", "_fresh", "_start_early_ms", "_started")

    def __init__(self, *, auto_renew: bool) -> None:
        self._auto_renew = auto_renew
        self._start_early_ms = 0  # time after which the next lease starts early
        self._fresh: dict[bytes, tuple[int, int]] = {}  # queue id of the lease and its start time
        self._started: dict[bytes, int] = {}  # queue ids of the leases to renew

    def __bool__(self) -> bool:
        """Whether a lease must be started or renewed."""
        return bool(self._fresh or self._started)

    @property
    def has_fresh(self) -> bool:
        """Whether a lease must be started."""
        return bool(self._fresh)

    def starts_early(self, now_ms: int) -> bool:
        """Returns whether the next lease must start before the application receives its message."""
        return now_ms >= self._start_early_ms

    def handed_over(
        self, handle: bytes, queue_id: int, lease_ms: int, until_ms: int, now_ms: int
    ) -> None:
        """Records that the application received a message. Its lease ends at *until_ms*."""
        left_ms = until_ms - now_ms
        is_late = left_ms < LEFT_MIN_MS or 2 * left_ms < lease_ms
        self._fresh[handle] = queue_id, now_ms if is_late else now_ms + START_AFTER_MS

    def start_now(self, handle: bytes, queue_id: int, now_ms: int) -> None:
        """Schedules the start of a lease for now.

        The application may not have received the message yet.
        """
        self._fresh[handle] = queue_id, now_ms
        self._start_early_ms = now_ms + START_EARLY_EVERY_MS

    def renewed(self, handle: bytes) -> None:
        """Records that the application itself renews a lease. The renewal starts the lease."""
        fresh = self._fresh.pop(handle, None)
        if fresh is not None and self._auto_renew:
            self._started[handle] = fresh[0]

    def forget(self, handle: bytes) -> None:
        """Forgets a lease because its message is settled or the lease has ended."""
        if self._fresh.pop(handle, None) is None:
            self._started.pop(handle, None)

    def clear(self) -> None:
        """Forgets all leases because they have ended."""
        self._fresh.clear()
        self._started.clear()
        self._start_early_ms = 0

    def start(self, now_ms: int) -> list[tuple[int, bytes]]:
        """Returns the queue id and handle of each lease that starts now."""
        due = [(x[0], handle) for handle, x in self._fresh.items() if x[1] <= now_ms]
        for queue_id, handle in due:
            del self._fresh[handle]
            if self._auto_renew:
                self._started[handle] = queue_id
        return due

    def started(self) -> list[tuple[int, bytes]]:
        """Returns the queue id and handle of each started lease that must be renewed."""
        return [(queue_id, handle) for handle, queue_id in self._started.items()]
