"""What connections were sent and have not fetched: who is sent no more for now, and how much.

A connection is *held* while its peer has too much to fetch. No further request of it is taken, and
its consumers are handed nothing. So whatever is large is read from the store only when somebody
fetches it.

All connections together share a room. While it lasts, a frame may be as long as a frame may be.
When it is *tight*, each frame has a share of SHARE_BYTES at most, and longer messages wait.
"""

from typing import Any

from qmgr_protocol import messages as m

DELIVER_MAX_BYTES = 1024 * 1024  # of messages in one frame; a longer message is alone in its frame
ENOUGH_BYTES = 1024 * 1024  # that a turn makes for one connection, or that its peer has to fetch
SHARE_BYTES = 16 * 1024  # the same, and the longest frame, while the room is tight
COUNTED_BYTES = 1024  # the least that counts: each connection has many short answers in a turn
_ELEMENT_BYTES = 5  # of a number, and of the head of anything else


class Outflow:
    """What the core knows of what is not fetched.

    Invariant: ``held`` has the connections that are blocked, and during a turn also those for which
    that turn made enough.
    """

    def __init__(self, longest_bytes: int = DELIVER_MAX_BYTES) -> None:
        """Begin with endless room.

        Args:
            longest_bytes: of one frame.
        """
        self.held: set[int] = set()
        self.is_tight = False
        self.frame_bytes = DELIVER_MAX_BYTES  # the most that a frame may have now
        self._longest_bytes = longest_bytes
        self._blocked: set[int] = set()
        self._made: dict[int, int] = {}
        self._room_bytes: float = float("inf")

    def block(self, connection: int) -> None:
        """Hold *connection*: its peer has too much to fetch."""
        self._blocked.add(connection)
        self.held.add(connection)

    def unblock(self, connection: int) -> None:
        """Let *connection* go on: its peer has fetched what it was sent, or is gone."""
        self._blocked.discard(connection)
        self.held.discard(connection)

    def set_room(self, room_bytes: float) -> None:
        """Set what may be sent to all connections together before peers fetch something."""
        self._room_bytes = room_bytes
        self.is_tight = room_bytes < self._longest_bytes
        self.frame_bytes = SHARE_BYTES if self.is_tight else DELIVER_MAX_BYTES

    @property
    def long_answers(self) -> int:
        """How many of the longest answers there is room for."""
        return 0 if self.is_tight else int(min(self._room_bytes, 1 << 50) // self._longest_bytes)

    def made(self, connection: int, size_bytes: int) -> None:
        """Count what this turn made for *connection*."""
        if size_bytes < COUNTED_BYTES:
            return
        made = self._made[connection] = self._made.get(connection, 0) + size_bytes
        self.set_room(self._room_bytes - size_bytes)
        if made > (SHARE_BYTES if self.is_tight else ENOUGH_BYTES):
            self.held.add(connection)

    def count_answer(self, connection: int, sends: list[tuple[int, m.Message]]) -> None:
        """Count the last of *sends* if it answers what *connection* asked."""
        if sends and sends[-1][0] == connection and type(sends[-1][1]) is m.Ok:
            self.made(connection, weight(sends[-1][1].value))

    def end_turn(self) -> list[int]:
        """Return the connections that may go on, as only what this turn made held them."""
        self._made.clear()
        if not self.held:
            return []
        over = [connection for connection in self.held if connection not in self._blocked]
        self.held.difference_update(over)
        return over


def weight(value: Any) -> int:
    """Return about how many bytes *value* takes on the wire."""
    kind = type(value)
    if kind is bytes or kind is str:
        return _ELEMENT_BYTES + len(value)
    if kind is dict:
        return _ELEMENT_BYTES + sum(weight(key) + weight(item) for key, item in value.items())
    if kind is list or kind is tuple:
        return _ELEMENT_BYTES + sum(map(weight, value))
    return _ELEMENT_BYTES
