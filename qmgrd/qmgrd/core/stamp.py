"""The origin's clock: the timestamps that a queue manager gives to messages it creates."""

from qmgr_protocol.errors import ErrorCode, RequestError

AHEAD_MAX_US = 24 * 3_600 * 1_000_000


class Stamper:
    """Gives out (own name, next tick), each once, whatever the wall clock does.

    Invariant: every timestamp given out is above all before it. ``last_us`` is stored in the turn
    that raised it, so this holds over restarts.
    """

    __slots__ = ("last_us", "origin")

    def __init__(self, name: str, last_us: int) -> None:
        self.origin = name.encode()
        self.last_us = last_us

    def catch_up(self, wall_us: int) -> None:
        """Have the next timestamp be no earlier than *wall_us*."""
        self.last_us = max(self.last_us, wall_us - 1)

    def next(self, wall_us: int) -> bytes:
        """Return the next UID, encoded as in a record."""
        self.catch_up(wall_us)
        self.last_us += 1
        return self.origin + self.last_us.to_bytes(8, "big")

    def observe(self, trailer: bytes, wall_us: int) -> None:
        """Stay ahead of a UID of our own name that comes back from elsewhere.

        A store that was restored from a snapshot meets its own later messages again; giving their
        timestamps to new messages would have these taken for duplicates.

        Raises:
            RequestError: VALUE_INVALID, it lies more than a day ahead of the wall clock.
        """
        if trailer[:-8] != self.origin:
            return
        timestamp = int.from_bytes(trailer[-8:], "big")
        if timestamp <= self.last_us:
            return
        if timestamp > wall_us + AHEAD_MAX_US:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"timestamp {timestamp} of this queue manager's own name is over a day ahead",
            )
        self.last_us = timestamp
