"""Limits what is sent to connections that have not fetched earlier answers.

A connection is *held* while its peer has too much to fetch. The daemon takes no further request
from it, and delivers nothing to its consumers. So large messages are read from the store only when
a peer fetches them.

All connections share a room. Normally a frame may have the full length. When the room is *tight*,
each frame has at most SHARE_BYTES, and longer messages wait.
"""

from typing import Any

from qmgr_protocol import messages as m

DELIVER_MAX_BYTES = 1024 * 1024  # of messages in a frame; a longer message has its own frame
ENOUGH_BYTES = 1024 * 1024  # made by a turn for one connection, or not fetched yet
SHARE_BYTES = 16 * 1024  # the same, and the longest frame, if the room is tight
COUNTED_BYTES = 1024  # less does not count, as a turn has many short answers
_ELEMENT_BYTES = 5  # of a number, and of the head of anything else


class UnreadReplies:
    """The connections that have not fetched what they were sent.

    Invariant: ``held`` has the blocked connections, and during a turn also those for which the turn
    has made enough.
    """

    def __init__(self, longest_bytes: int = DELIVER_MAX_BYTES) -> None:
        """Begins with unlimited room.

        Args:
            longest_bytes: of a frame.
        """
        self.held: set[int] = set()
        self.is_room_short = False
        self.frame_bytes = DELIVER_MAX_BYTES  # of a frame, at most, now
        self._longest_bytes = longest_bytes
        self._blocked: set[int] = set()
        self._made: dict[int, int] = {}
        self._room_bytes: float = float("inf")

    def block(self, connection: int) -> None:
        """Holds *connection*, whose peer has too much to fetch."""
        self._blocked.add(connection)
        self.held.add(connection)

    def unblock(self, connection: int) -> None:
        """Ends the hold on *connection*: its peer has fetched everything, or is gone."""
        self._blocked.discard(connection)
        self.held.discard(connection)

    def set_room(self, room_bytes: float) -> None:
        """Sets the bytes that may be sent to all connections before a peer fetches something."""
        self._room_bytes = room_bytes
        self.is_room_short = room_bytes < self._longest_bytes
        self.frame_bytes = SHARE_BYTES if self.is_room_short else DELIVER_MAX_BYTES

    @property
    def long_answers(self) -> int:
        """How many answers of the longest kind fit in the room."""
        return (
            0 if self.is_room_short else int(min(self._room_bytes, 1 << 50) // self._longest_bytes)
        )

    def count_made(self, connection: int, size_bytes: int) -> None:
        """Counts bytes that this turn made for *connection*."""
        if size_bytes < COUNTED_BYTES:
            return
        made = self._made[connection] = self._made.get(connection, 0) + size_bytes
        self.set_room(self._room_bytes - size_bytes)
        if made > (SHARE_BYTES if self.is_room_short else ENOUGH_BYTES):
            self.held.add(connection)

    def count_answer(self, connection: int, sends: list[tuple[int, m.Message]]) -> None:
        """Counts the last of *sends* if it is an answer to *connection*."""
        if sends and sends[-1][0] == connection and type(sends[-1][1]) is m.Ok:
            self.count_made(connection, estimated_bytes(sends[-1][1].value))

    def end_turn(self) -> list[int]:
        """Returns the connections that were held only for this turn."""
        self._made.clear()
        if not self.held:
            return []
        over = [connection for connection in self.held if connection not in self._blocked]
        self.held.difference_update(over)
        return over


def estimated_bytes(value: Any) -> int:
    """Returns about how many bytes *value* has on the wire."""
    kind = type(value)
    if kind is bytes or kind is str:
        return _ELEMENT_BYTES + len(value)
    if kind is dict:
        return _ELEMENT_BYTES + sum(
            estimated_bytes(key) + estimated_bytes(item) for key, item in value.items()
        )
    if kind is list or kind is tuple:
        return _ELEMENT_BYTES + sum(map(estimated_bytes, value))
    return _ELEMENT_BYTES
