"""The origin's clock: the timestamps that a queue manager gives to messages it creates."""

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError

AHEAD_MAX_US = (
    1_000_000  # by which the clocks of a queue manager and of its restored copy may differ
)


class Stamper:
    """Gives out (own name, next tick), each once, even if the wall clock jumps.

    Invariant: every timestamp given out is above all before it. ``last_us`` is stored in the turn
    that raised it, so this holds over restarts.
    """

    __slots__ = ("last_us", "origin")

    def __init__(self, name: str, last_us: int) -> None:
        self.origin = name.encode()
        self.last_us = last_us

    def catch_up(self, wall_us: int) -> None:
        """Makes the next timestamp no earlier than *wall_us*."""
        self.last_us = max(self.last_us, wall_us - 1)

    def next(self, wall_us: int) -> bytes:
        """Returns the next UID, encoded as in a record."""
        self.catch_up(wall_us)
        self.last_us += 1
        return self.origin + self.last_us.to_bytes(8, "big")

    def observe(self, trailer: bytes, wall_us: int) -> None:
        """Stays above a UID with our own name that comes from elsewhere.

        A store that was restored from a snapshot meets its own later messages again. If new
        messages got the same timestamps, they would count as duplicates. No message that this queue
        manager stamped is ahead of its clock. So a client that invents a UID of our name cannot
        push the timestamps of all later messages into the future.

        Raises:
            RequestError: VALUE_INVALID, the timestamp is ahead of the wall clock.
        """
        if trailer[records.UID_ORIGIN] != self.origin:
            return
        timestamp = int.from_bytes(trailer[records.UID_TIMESTAMP], "big")
        if timestamp <= self.last_us:
            return
        if timestamp > wall_us + AHEAD_MAX_US:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"UID {self.origin.decode()}/{timestamp} is {timestamp - wall_us} us ahead of the "
                f"clock: at most {AHEAD_MAX_US} us under this queue manager's own name",
            )
        self.last_us = timestamp
