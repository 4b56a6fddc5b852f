"""Assigns the timestamps in the UIDs of new messages."""

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError

# Maximum difference between the clock of a queue manager and that of its restored copy.
AHEAD_MAX_US = 1_000_000


class Stamper:
    """Assigns UIDs of this queue manager. Each UID is unique, even if the wall clock jumps.

    Invariant: each assigned timestamp is higher than all earlier ones, even across restarts,
    because the turn that raises ``last_us`` stores it.
    """

    __slots__ = ("last_us", "origin")

    def __init__(self, name: str, last_us: int) -> None:
        self.origin = name.encode()
        self.last_us = last_us

    def catch_up(self, wall_us: int) -> None:
        """Ensures that the next timestamp is at least *wall_us*."""
        self.last_us = max(self.last_us, wall_us - 1)

    def next(self, wall_us: int) -> bytes:
        """Returns the next UID, encoded as in a record."""
        self.catch_up(wall_us)
        self.last_us += 1
        return self.origin + self.last_us.to_bytes(8, "big")

    def observe(self, trailer: bytes, wall_us: int) -> None:
        """Keeps later timestamps above the timestamp of a received UID with this origin.

        A queue manager that was restored from a snapshot may receive messages that it created after
        the snapshot. If new messages had the same timestamps, they would count as duplicates.

        No message of this queue manager is ahead of its clock. Therefore, a client that invents a
        UID with this origin cannot push the timestamps of all later messages into the future.

        Raises:
            RequestError: VALUE_INVALID if the timestamp is ahead of the wall clock.
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
                f"clock, which exceeds the limit of {AHEAD_MAX_US} us for this queue manager's own "
                "name",
            )
        self.last_us = timestamp
