"""Bounds the memory of frames that are not complete, of all connections together.

A short frame is read as it comes. A large one needs a *place*: room for all of it is set aside
first. Without a place the connection is not read from, so that the rest of the frame waits in the
kernel and with its sender. While others wait for a place, a frame that does not get on loses its
own.

Places go in turns to the shortest frame and to the one that has waited longest. While little room
is left, shorter frames need places too, and a quarter of the room is theirs.
"""

from typing import TYPE_CHECKING

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.sessions.intake import Intake

if TYPE_CHECKING:
    from qmgrd.net.session import Session

READ_BYTES = 256 * 1024  # at once
LARGE_BYTES = 64 * 1024  # A longer frame needs a place.
SHARE_BYTES = 16 * 1024  # Both of these while little room is left.
PROGRESS_BYTES = 64 * 1024  # from one look to the next, else a frame that is waited for is cut off


class LargeFrames:
    """The incomplete frames of all connections.

    Invariant: ``_charged`` has the bytes that each incomplete frame counts for: all of it for one
    with a place, else what has arrived. ``_bytes`` is their sum.
    """

    def __init__(self, bytes_max: int, intake: Intake) -> None:
        """Begins.

        Args:
            bytes_max: of incomplete frames and of those that wait for a turn.
            intake: what waits for a turn.
        """
        self.intake = intake
        self._bytes_max = bytes_max
        self._tight_bytes = bytes_max * 3 // 4
        self._bytes = 0
        self._charged: dict[Session, int] = {}
        self._placed: dict[Session, int] = {}  # and what had arrived at the last look; -1: none yet
        self._waiting: dict[Session, int] = {}  # and how long the frame is
        self._is_shortest_next = True
        self.last = memoryview(bytearray(READ_BYTES))  # what the last read filled
        self._share = self.last[:SHARE_BYTES]

    @property
    def bytes(self) -> int:
        """How many bytes the incomplete frames count for."""
        return self._bytes

    @property
    def is_tight(self) -> bool:
        """Whether little room is left."""
        return self._bytes + self.intake.bytes > self._tight_bytes

    def buffer(self, sizehint: int = -1) -> memoryview:
        """Returns what the next read may fill; its content is gone with the next call."""
        del sizehint  # the event loop's
        is_tight = self._bytes + self.intake.bytes > self._tight_bytes
        return self._share if is_tight else self.last

    def holds(self, session: "Session", held_bytes: int, frame_bytes: int, *, is_new: bool) -> None:
        """Takes note that *session* holds *held_bytes* of a frame of *frame_bytes*.

        Args:
            is_new: whether that frame began with the bytes that came last.
        """
        had_place = (is_new or not held_bytes) and self._placed.pop(session, None) is not None
        if not held_bytes:
            self._charge(session, 0)
        elif session in self._placed:
            pass
        elif frame_bytes <= (SHARE_BYTES if self.is_tight else LARGE_BYTES):
            self._charge(session, held_bytes)
        else:
            self._charge(session, held_bytes)
            is_behind = bool(self._waiting) and frame_bytes > LARGE_BYTES
            if is_behind or not self._place(session, frame_bytes):
                self._waiting[session] = frame_bytes
                session.wait_for_place(is_waiting=True)
        if had_place:
            self.go_on()

    def forget(self, session: "Session") -> None:
        """Gives back the room of a connection that is gone."""
        self._waiting.pop(session, None)
        self._placed.pop(session, None)
        self._charge(session, 0)
        self.go_on()

    def go_on(self) -> None:
        """Gives places to those that wait, as far as there is room."""
        while self._waiting:
            session = min(self._waiting, key=self._waiting.__getitem__)
            if self._waiting[session] > LARGE_BYTES and not self._is_shortest_next:
                session = next(iter(self._waiting))
            if not self._place(session, self._waiting[session]):
                return
            self._is_shortest_next = not self._is_shortest_next
            del self._waiting[session]
            session.wait_for_place(is_waiting=False)

    def look(self) -> None:
        """Cuts off the frames that do not get on, if others wait for their places."""
        if self._waiting:
            for session, before in list(self._placed.items()):
                peer, held_bytes = session.peer, session.peer.partial_bytes
                if peer.is_ahead and not self.intake.is_held(peer.number):
                    before = -1  # It is not read from, as the turns have to catch up.
                self._placed[session] = held_bytes
                if before >= 0 and held_bytes - before < PROGRESS_BYTES:
                    session.cut_off(_too_slow(peer.frame_bytes, held_bytes))
                    self.forget(session)
        self.go_on()

    def _place(self, session: "Session", frame_bytes: int) -> bool:
        """Sets aside room for a frame, if there is any; there always is for one at a time."""
        others = self._bytes - self._charged.get(session, 0) + self.intake.bytes
        most = self._tight_bytes if frame_bytes > LARGE_BYTES else self._bytes_max
        if self._placed and others + frame_bytes > most:
            return False
        self._placed[session] = -1
        self._charge(session, frame_bytes)
        return True

    def _charge(self, session: "Session", size_bytes: int) -> None:
        self._bytes += size_bytes - self._charged.pop(session, 0)
        if size_bytes:
            self._charged[session] = size_bytes


def _too_slow(frame_bytes: int, held_bytes: int) -> m.Goaway:
    return m.Goaway(
        ErrorCode.LIVENESS_EXPIRED,
        f"a frame of {frame_bytes} bytes stopped after {held_bytes}, and others wait for its room",
    )
