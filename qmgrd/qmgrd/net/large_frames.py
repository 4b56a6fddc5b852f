"""Limits the memory of the incomplete frames of all connections together.

A short frame is read as it arrives. A large frame needs a *place*, which reserves room for the
whole frame. Until it has a place, the daemon does not read from the connection, and the rest of the
frame stays in the kernel and at its sender. A frame that makes no progress loses its place if other
frames wait for one.

Places go alternately to the shortest waiting frame and to the frame that has waited longest. While
little room is left, shorter frames need places as well. A quarter of the room is reserved for them.

Requests of a user whose puts are delayed (put_rates.py) take only room that no other user needs.
The frames of this user get places last. If a frame of another user needs the room, or if delayed
requests take more than half of the room, connections of the user are closed. Their delayed requests
are dropped as if they had not arrived.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.intake import Intake

if TYPE_CHECKING:
    from qmgrd.net.session import SocketSession

READ_BYTES = 256 * 1024  # number of bytes per read
LARGE_BYTES = 64 * 1024  # A longer frame needs a place.
# While little room is left, a frame longer than this needs a place. Short reads have the same
# limit.
SHARE_BYTES = 16 * 1024
# Progress in bytes that a frame must make between two checks. A connection with a slower frame is
# closed if other frames wait for its place.
PROGRESS_BYTES = 64 * 1024


class LargeFrames:
    """The incomplete frames of all connections.

    Invariant: ``_charged`` contains the bytes charged for each incomplete frame: its full length if
        it has a place, else the bytes received so far. ``_bytes`` is their sum.
    """

    def __init__(
        self, bytes_max: int, intake: Intake, sessions: "Mapping[int, SocketSession]"
    ) -> None:
        """Initializes the limits.

        Args:
            bytes_max: The limit for incomplete frames and waiting requests together.
            intake: The requests that wait for a turn.
            sessions: The open connections, by number.
        """
        self.intake = intake
        self._sessions = sessions
        self._bytes_max = bytes_max
        self._tight_bytes = bytes_max * 3 // 4
        self._bytes = 0
        self._charged: dict[SocketSession, int] = {}
        # Number of bytes that had been received at the last check of each frame with a place. -1
        # means that the frame was not checked yet.
        self._placed: dict[SocketSession, int] = {}
        self._waiting: dict[SocketSession, int] = {}  # length of each frame that waits for a place
        self._is_shortest_next = True
        self.last = memoryview(bytearray(READ_BYTES))  # the buffer that the last read filled
        self._share = self.last[:SHARE_BYTES]

    @property
    def bytes(self) -> int:
        """The bytes charged for the incomplete frames."""
        return self._bytes

    @property
    def is_room_short(self) -> bool:
        """Whether little room is left."""
        return self._bytes + self.intake.bytes > self._tight_bytes

    def buffer(self, sizehint: int = -1) -> memoryview:
        """Returns the buffer for the next read. The next call overwrites its content."""
        del sizehint  # the size that the event loop suggests
        is_room_short = self._bytes + self.intake.bytes > self._tight_bytes
        return self._share if is_room_short else self.last

    def holds(
        self, session: "SocketSession", held_bytes: int, frame_bytes: int, *, is_new: bool
    ) -> None:
        """Records that *session* holds *held_bytes* of a frame of *frame_bytes*.

        Args:
            is_new: Whether the last received bytes began this frame.
        """
        had_place = (is_new or not held_bytes) and self._placed.pop(session, None) is not None
        if not held_bytes:
            self._charge(session, 0)
        elif session in self._placed:
            pass
        elif frame_bytes <= (SHARE_BYTES if self.is_room_short else LARGE_BYTES):
            self._charge(session, held_bytes)
        else:
            self._charge(session, held_bytes)
            is_behind = bool(self._waiting) and frame_bytes > LARGE_BYTES
            if is_behind or not self._place(session, frame_bytes):
                self._waiting[session] = frame_bytes
                session.wait_for_place(is_waiting=True)
        if had_place:
            self.go_on()

    def forget(self, session: "SocketSession") -> None:
        """Frees the room of a closed connection."""
        self._free(session)
        self.go_on()

    def _free(self, session: "SocketSession") -> None:
        self._waiting.pop(session, None)
        self._placed.pop(session, None)
        self._charge(session, 0)

    def go_on(self) -> None:
        """Gives places to waiting connections while there is room. Called after each turn."""
        self._limit_delayed()
        while self._waiting:
            waits = self.intake.waits_for_tokens
            others = [session for session in self._waiting if not waits(session.peer.number)]
            candidates = others or list(self._waiting)
            session = min(candidates, key=self._waiting.__getitem__)
            if self._waiting[session] > LARGE_BYTES and not self._is_shortest_next:
                session = candidates[0]
            frame_bytes = self._waiting[session]
            if not self._place(session, frame_bytes):
                if others and self._drop_delayed(self._missing_bytes(session, frame_bytes)):
                    continue
                return
            self._is_shortest_next = not self._is_shortest_next
            del self._waiting[session]
            session.wait_for_place(is_waiting=False)

    def tick(self) -> None:
        """Closes connections whose frames make no progress if other frames wait for places."""
        if self._waiting:
            for session, before in list(self._placed.items()):
                peer, held_bytes = session.peer, session.peer.partial_bytes
                if peer.is_ahead and not self.intake.is_held(peer.number):
                    # The connection is not read because the turns have to catch up.
                    before = -1
                self._placed[session] = held_bytes
                if before >= 0 and held_bytes - before < PROGRESS_BYTES:
                    session.cut_off(_too_slow(peer.frame_bytes, held_bytes))
                    self.forget(session)
        self.go_on()

    def _place(self, session: "SocketSession", frame_bytes: int) -> bool:
        """Reserves room for a frame if enough room is left.

        If no other frame has a place, the frame always gets one.
        """
        if self._placed and self._missing_bytes(session, frame_bytes) > 0:
            return False
        self._placed[session] = -1
        self._charge(session, frame_bytes)
        return True

    def _missing_bytes(self, session: "SocketSession", frame_bytes: int) -> int:
        """Returns the size of the room that a frame needs in addition to the room that is left."""
        others = self._bytes - self._charged.get(session, 0) + self.intake.bytes
        most = self._tight_bytes if frame_bytes > LARGE_BYTES else self._bytes_max
        return others + frame_bytes - most

    def _limit_delayed(self) -> None:
        """Closes delayed connections while delayed requests take more than half of the room.

        Otherwise, a user with many connections could fill the room with short frames.
        """
        most = self._bytes_max // 2
        if self.intake.bytes > most:
            delayed = sum(one.bytes for user in self.intake.delayed_connections() for one in user)
            if delayed > most:
                self._drop_delayed(delayed - most)

    def _drop_delayed(self, size_bytes: int) -> bool:
        """Closes delayed connections that take *size_bytes* of room. Returns whether it did.

        Closes nothing if they take less. The connection that takes most comes first, of the user
        whose delayed connections take most.
        """
        users: list[tuple[int, list[tuple[int, SocketSession]]]] = []
        for delayed in self.intake.delayed_connections():
            found = [(x.bytes, self._sessions[x.connection]) for x in delayed]
            held = [(waiting + self._charged.get(x, 0), x) for waiting, x in found]
            held.sort(key=itemgetter(0), reverse=True)
            users.append((sum(size for size, _ in held), held))
        if sum(size for size, _ in users) < size_bytes:
            return False
        users.sort(key=itemgetter(0), reverse=True)
        for held_bytes, session in (one for _, held in users for one in held):
            session.cut_off(_delayed(held_bytes))
            self._free(session)
            size_bytes -= held_bytes
            if size_bytes <= 0:
                break
        return True

    def _charge(self, session: "SocketSession", size_bytes: int) -> None:
        self._bytes += size_bytes - self._charged.pop(session, 0)
        if size_bytes:
            self._charged[session] = size_bytes


def _delayed(size_bytes: int) -> m.Goaway:
    return m.Goaway(
        ErrorCode.LIVENESS_EXPIRED,
        f"{size_bytes} bytes of delayed puts wait because the user puts faster than its limits "
        "allow, and others need the room",
        1_000,
    )


def _too_slow(frame_bytes: int, held_bytes: int) -> m.Goaway:
    return m.Goaway(
        ErrorCode.LIVENESS_EXPIRED,
        f"a frame of {frame_bytes} bytes stopped after {held_bytes} bytes, and others need the "
        "room",
    )
