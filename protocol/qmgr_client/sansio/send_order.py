"""The order in which a client sends pending messages, so that a reconnect is safe.

After a reconnect, the client first repeats the settles of the last connection. Then the client
resumes the producer and repeats the unanswered puts. Only then does the client request messages:
gets, consumers, credit. In this order, no message is lost and none takes effect twice.

The pieces of long records leave last, so that other messages pass between them. One piece leaves
after each frame of puts or request, so that a flood of them does not stop a long record.
"""

from qmgr_client.sansio.consumers import Consumers
from qmgr_client.sansio.login import ClientProof
from qmgr_client.sansio.pending_cancels import PendingCancels
from qmgr_client.sansio.puts import Puts
from qmgr_client.sansio.requests import Requests
from qmgr_client.sansio.settles import Settles
from qmgr_client.sansio.units import OpenUnits
from qmgr_protocol import messages as m
from qmgr_protocol.field import ID_END


class SendOrder:
    """The selection of the next message to send, within the windows of the connection."""

    def __init__(
        self,
        puts: Puts,
        settles: Settles,
        requests: Requests,
        consumers: Consumers,
        unanswered: PendingCancels,
        units: OpenUnits,
        proof: ClientProof,
    ) -> None:
        self._puts = puts
        self._settles = settles
        self._requests = requests
        self._consumers = consumers
        self._unanswered = unanswered
        self._units = units
        self._proof = proof
        self._last_id = 0
        self._is_piece_due = False  # whether a piece leaves before the next put or request
        self._is_unit_due = False  # whether the next piece is one of a unit of work

    def next(self, limits: m.Welcome, now_ms: int) -> m.Message | None:
        """Returns the next message to send, or None."""
        if self._consumers.has_lapsed:
            self._give_back_lapsed()
        requests, window = self._requests, limits.request_window
        used = len(requests.open) + self._settles.frames + self._consumers.opening
        used += bool(self._puts.open_id)
        if used < window and (settle := self._settles.take()) is not None:
            return settle
        has_slot = used < max(window - window // 8, 1)
        if self._is_piece_due and (piece := self._next_piece(limits, has_slot=has_slot)):
            return piece
        found = self._next_short(limits, used, now_ms, has_slot=has_slot)
        return found or self._next_piece(limits, has_slot=has_slot)

    def _next_short(
        self, limits: m.Welcome, used: int, now_ms: int, *, has_slot: bool
    ) -> m.Message | None:
        """Returns the next message that is neither a settle nor one of a long record, or None."""
        puts, settles, requests = self._puts, self._settles, self._requests
        window = limits.request_window
        # A get may wait for a long time. Therefore, gets leave part of the window to other
        # requests, and all requests leave part of the window to settles.
        may_wait = used < max(window - window // 4, 1)
        if self._units.ready:
            self.number_commits()
        if puts.wants_open():
            if has_slot and not settles.is_recovering:
                return puts.open(self.request_id())
        elif (put := puts.take(limits)) is not None:
            self._is_piece_due = True
            return put
        is_recovered = not (puts.is_recovering or settles.is_recovering)
        if has_slot and requests.has_next(gets=is_recovered and may_wait):
            self._is_piece_due = True
            return requests.take(self.request_id(), now_ms)
        if not is_recovered:
            return None
        if has_slot and self._consumers.has_next():
            return self._consumers.take(self.request_id())
        return self._next_unanswered(window, now_ms, has_slot=used < window)

    def _next_piece(self, limits: m.Welcome, *, has_slot: bool) -> m.Message | None:
        """Returns the next piece of a long put, or of a long put in a unit, in turns, or None.

        After the last piece, returns the message that names the body.
        """
        self._is_piece_due = False
        if self._puts.long is None and not self._requests.long:
            return None
        self._is_unit_due = not self._is_unit_due
        request_id = self.request_id if has_slot else None
        if self._is_unit_due:
            return self._requests.take_piece(limits, request_id) or self._puts.take_piece(limits)
        return self._puts.take_piece(limits) or self._requests.take_piece(limits, request_id)

    def _give_back_lapsed(self) -> None:
        for queue_id, handle, group_return in self._consumers.take_lapsed():
            self._settles.give_back(queue_id, handle, group_return)

    def number_commits(self) -> None:
        """Queues the commits of units whose steps are all answered, after the pending puts."""
        for commit in self._units.take_ready():
            self._puts.add(commit)

    def _next_unanswered(self, window: int, now_ms: int, *, has_slot: bool) -> m.Message | None:
        """Returns the next credit or cancel, or an empty settle to make room for the next one."""
        unanswered = self._unanswered
        if not unanswered.has_room(window):
            wanted = has_slot and unanswered.wants_settle()
            return self._settles.take_empty() if wanted else None
        found = unanswered.take() or self._consumers.take_credit(now_ms)
        if found is not None:
            unanswered.note()
        return found

    def request_id(self) -> int:
        """Returns an id that no open request on this connection uses."""
        while True:
            self._last_id = self._last_id % (ID_END - 1) + 1
            is_used = self._last_id in self._requests.open or self._last_id in self._consumers.open
            if not is_used and self._last_id not in (self._puts.open_id, self._proof.renewal_id):
                return self._last_id
