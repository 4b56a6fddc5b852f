"""Limits the bytes that are sent to connections that have not fetched earlier answers.

A connection is *held* while its peer has too many bytes to fetch. The daemon then accepts no
further requests from the connection, and delivers nothing to its consumers. Therefore, large
messages are read from the store only when a peer fetches them. The bytes that turns have made count
from the start, although they leave only when their turns are durable (turn.py).

A user may have a limit for all of its connections together (user_unread.py). If the user is *full*,
all of its connections are held.

All connections share the room for unread bytes. Normally a frame may have the full length. When the
room is *short*, each frame has at most SHARE_BYTES, and longer messages wait.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from qmgrd.core.limits.user_unread import COUNT_MS, UserUnread

# Maximum bytes of messages in a frame. A longer message has a separate frame.
DELIVER_MAX_BYTES = 1024 * 1024
# A connection is held above this number of bytes that turns have made, or that are not fetched yet.
ENOUGH_BYTES = 1024 * 1024
SHARE_BYTES = 16 * 1024  # the same limit, and the maximum bytes of a frame, while the room is short
# Minimum bytes of an answer that is counted, because a turn has many short answers.
COUNTED_BYTES = 1024
COUNT_ALL_MS = 1_000  # time between two counts of all users, which also find short answers
_ELEMENT_BYTES = 5  # estimated bytes of a number, or of the head of any other element


class Made(NamedTuple):
    """The bytes that one turn made."""

    by_connection: dict[int, int]
    by_user: dict[UserUnread, int]


NOTHING_MADE = Made({}, {})


class UnreadReplies:
    """Connections that have unread replies, and the room for further replies.

    Invariant: ``held`` contains the blocked connections, all connections of full users, and those
    for which, or for whose users, turns made enough bytes that have not left yet. ``_made`` is the
    number of such bytes of each connection. ``_growing`` contains all full users.
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
        self._made_bytes = 0  # the sum of _made
        self._turn = Made({}, {})  # what the current turn has made
        self._room_bytes: float = float("inf")
        # Returns the unread bytes of a connection. The shell sets it.
        self.unsent_of: Callable[[int], int] = lambda connection: 0
        self.users: dict[int, UserUnread] = {}  # by connection, only users that have a limit
        self._growing: dict[UserUnread, None] = {}  # users to count before the next turn
        self._count_all_ms = 0

    def block(self, connection: int) -> None:
        """Holds *connection*, whose peer has too many bytes to fetch."""
        self._blocked.add(connection)
        self.held.add(connection)

    def unblock(self, connection: int) -> None:
        """Ends the hold on *connection* after its peer fetched all bytes or disconnected."""
        self._blocked.discard(connection)
        if not self._is_user_full(connection):
            self.held.discard(connection)

    def watch(self, connection: int, user: UserUnread) -> None:
        """Applies the limit of *user*, as it is now, to its *connection*."""
        self._growing[user] = None
        if user.limit_bytes:
            self.users[connection] = user
            if user.is_full:
                self.held.add(connection)
        else:
            self.users.pop(connection, None)

    def forget(self, connection: int) -> None:
        """Forgets *connection*, which is closed."""
        self.users.pop(connection, None)
        self.unblock(connection)

    def _is_user_full(self, connection: int) -> bool:
        user = self.users.get(connection)
        return user is not None and user.is_full

    def _hold(self, user: UserUnread) -> None:
        """Holds all connections of *user*, except those that are already lost."""
        self.held.update(x for x in user.connections if self.users.get(x) is user)

    def wrote(self, connection: int, size_bytes: int) -> None:
        """Counts *size_bytes* that were written to *connection*."""
        user = self.users.get(connection)
        if user is not None:
            user.unread_bytes += size_bytes
            if user.must_count:
                self._growing[user] = None

    def count_users(self, now_ms: int) -> list[int]:
        """Counts users that may have too many unread bytes. Holds the connections of full users.

        Returns:
            The connections that are no longer held, because their users have read enough.
        """
        if not (self.users or self._growing):
            return []
        if now_ms >= self._count_all_ms and self.users:
            self._count_all_ms = now_ms + COUNT_ALL_MS
            self._growing.update(dict.fromkeys(self.users.values()))
        over: list[int] = []
        for user in list(self._growing):
            if user.count(self.unsent_of, now_ms):
                over += (x for x in user.connections if x in self.held and x not in self._blocked)
            if user.is_full:
                self._hold(user)
            else:
                del self._growing[user]
        self.held.difference_update(over)
        return over

    def next_count_ms(self, now_ms: int) -> int | None:
        """Returns the time of the next count of the full users, or None if there are none."""
        if not self._growing or not any(user.is_full for user in self._growing):
            return None
        return now_ms + COUNT_MS

    def set_room(self, room_bytes: float) -> None:
        """Sets the number of bytes that may be sent to all connections before peers fetch any.

        They include those that turns have made and that have not left yet.
        """
        self._use_room(room_bytes - self._made_bytes)

    def _use_room(self, room_bytes: float) -> None:
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
        turn, users = self._turn
        turn[connection] = turn.get(connection, 0) + size_bytes
        self._made[connection] = self._made.get(connection, 0) + size_bytes
        self._made_bytes += size_bytes
        self._use_room(self._room_bytes - size_bytes)
        if self._has_enough(connection):
            self.held.add(connection)
        user = self.users.get(connection)
        if user is not None:
            user.made_bytes += size_bytes
            users[user] = users.get(user, 0) + size_bytes
            if user.has_made_enough:
                self._hold(user)

    def _has_enough(self, connection: int) -> bool:
        enough = SHARE_BYTES if self.is_room_short else ENOUGH_BYTES
        return self._made.get(connection, 0) > enough

    def count_answer(self, connection: int, sends: list[tuple[int, m.Message]]) -> None:
        """Counts the bytes of the last message in *sends* if it answers a request of
        *connection*.
        """
        if sends and sends[-1][0] == connection and type(sends[-1][1]) is m.Ok:
            self.count_made(connection, estimated_bytes(sends[-1][1].value))

    def end_turn(self) -> Made:
        """Returns the bytes that the turn made, for :meth:`left`."""
        if not self._turn.by_connection:
            return NOTHING_MADE
        made, self._turn = self._turn, Made({}, {})
        return made

    def left(self, made: Made) -> list[int]:
        """Counts bytes of a turn that have left. Returns the connections that may continue."""
        for connection, size_bytes in made.by_connection.items():
            self._made_bytes -= size_bytes
            self._made[connection] -= size_bytes
            if not self._made[connection]:
                del self._made[connection]
        for user, size_bytes in made.by_user.items():
            user.made_bytes -= size_bytes
        if not self.held:
            return []
        over = [x for x in self.held if not self._must_wait(x)]
        self.held.difference_update(over)
        return over

    def _must_wait(self, connection: int) -> bool:
        if connection in self._blocked or self._has_enough(connection):
            return True
        user = self.users.get(connection)
        if user is None:
            return False
        return user.is_full or (user.made_bytes > 0 and user.has_made_enough)


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
