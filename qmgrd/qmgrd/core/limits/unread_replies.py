"""Limits the bytes that are sent to connections that have not fetched earlier answers.

A connection is *held* while its peer has too many bytes to fetch. The daemon then accepts no
further requests from the connection, and delivers nothing to its consumers. Therefore, large
messages are read from the store only when a peer fetches them.

All connections share the room for unread bytes. Normally a frame may have the full length. When the
room is *short*, each frame has at most SHARE_BYTES, and longer messages wait.
"""

from typing import Any

from qmgr_protocol import messages as m

# Maximum bytes of messages in a frame. A longer message has a separate frame.
DELIVER_MAX_BYTES = 1024 * 1024
# A connection is held above this number of bytes made by one turn or not fetched yet.
ENOUGH_BYTES = 1024 * 1024
SHARE_BYTES = 16 * 1024  # the same limit, and the maximum bytes of a frame, while the room is short
# Minimum bytes of an answer that is counted, because a turn has many short answers.
COUNTED_BYTES = 1024
_ELEMENT_BYTES = 5  # estimated bytes of a number, or of the head of any other element


class UnreadReplies:
    """Connections that have unread replies, and the room for further replies.

    Invariant: ``held`` contains the blocked connections. During a turn, it also contains the
    connections for which the turn has made enough bytes.
    """

    def __init__(self, longest_bytes: int = DELIVER_MAX_BYTES) -> None:
        """Creates the limits with unlimited room.

        Args:
            longest_bytes: The size of the longest frame.
        """
        self.held: set[int] = set()
        self.is_room_short = False
        self.frame_bytes = DELIVER_MAX_BYTES  # the current maximum number of bytes of a frame
        self._longest_bytes = longest_bytes
        self._blocked: set[int] = set()
        self._made: dict[int, int] = {}
        self._room_bytes: float = float("inf")

    def block(self, connection: int) -> None:
        """Holds *connection*, whose peer has too many bytes to fetch."""
        self._blocked.add(connection)
        self.held.add(connection)

    def unblock(self, connection: int) -> None:
        """Ends the hold on *connection* after its peer fetched all bytes or disconnected."""
        self._blocked.discard(connection)
        self.held.discard(connection)

    def set_room(self, room_bytes: float) -> None:
        """Sets the number of bytes that may be sent to all connections before peers fetch any."""
        self._room_bytes = room_bytes
        self.is_room_short = room_bytes < self._longest_bytes
        self.frame_bytes = SHARE_BYTES if self.is_room_short else DELIVER_MAX_BYTES

    @property
    def long_answers(self) -> int:
        """The number of answers of maximum length that fit in the room."""
        return (
            0 if self.is_room_short else int(min(self._room_bytes, 1 << 50) // self._longest_bytes)
        )

    def count_made(self, connection: int, size_bytes: int) -> None:
        """Counts *size_bytes* of answers that this turn made for *connection*."""
        if size_bytes < COUNTED_BYTES:
            return
        made = self._made[connection] = self._made.get(connection, 0) + size_bytes
        self.set_room(self._room_bytes - size_bytes)
        if made > (SHARE_BYTES if self.is_room_short else ENOUGH_BYTES):
            self.held.add(connection)

    def count_answer(self, connection: int, sends: list[tuple[int, m.Message]]) -> None:
        """Counts the bytes of the last message in *sends* if it answers a request of
        *connection*.
        """
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
    """Returns the approximate size of *value* on the wire."""
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
