"""A numbered stream: two small state machines, one at each end.

The sender assigns the numbers 1, 2, 3, ... to messages when it accepts them. The receiver stores
messages as they arrive and answers with one number, the *commit id*. The receiver has stored every
message up to the commit id durably. A field marked "stored" is written in the same turn as the
messages that it describes. Links and producers use the same stream (US 6,401,136 B1, claim 1;
refusals and resumption are our design).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from qmgr_protocol.errors import CommitOutOfRange, WindowExceeded


def runs_of(ids: Iterable[int]) -> list[list[int]]:
    """Returns *ids* in ascending order as runs [first, count]."""
    runs: list[list[int]] = []
    for seq_id in sorted(ids):
        if runs and sum(runs[-1]) == seq_id:
            runs[-1][1] += 1
        else:
            runs.append([seq_id, 1])
    return runs


def ids_of(runs: Iterable[Sequence[int]]) -> set[int]:
    """Returns the ids in *runs*. This function is the inverse of :func:`runs_of`."""
    return {seq_id for first, count in runs for seq_id in range(first, first + count)}


@dataclass(slots=True)
class Outbox:
    """The sending end. Ids after commit_id and before next_id are pending.

    Pending ids up to sent_id are in flight.

    The receiver has reported that it already has the ids in ``held``. These ids are not sent again.

    Invariant: commit_id <= sent_id < next_id, and sent_id <= commit_id + window. All ids in
    ``held`` are above commit_id.
    """

    window: int  # number of messages
    commit_id: int = 0  # highest committed id; stored
    next_id: int = 1  # next id to assign; stored
    # highest id sent; starts at commit_id, so ids that were in flight before a restart are sent
    # again
    sent_id: int = 0
    held: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sent_id = max(self.sent_id, self.commit_id)

    def assign(self, count: int = 1) -> int:
        """Returns the first id of *count* messages just accepted."""
        first_id, self.next_id = self.next_id, self.next_id + count
        return first_id

    def take(self, count: int) -> range:
        """Returns the next ids to send: at most *count*, never beyond the window."""
        start = self.sent_id + 1
        stop = min(start + count, self.next_id, self.commit_id + self.window + 1)
        self.sent_id = max(self.sent_id, stop - 1)
        return range(start, stop)

    def commit(self, commit_id: int) -> range:
        """Returns the ids that the peer has newly committed. The sender may delete their messages.

        Raises:
            CommitOutOfRange: *commit_id* was never assigned.
        """
        if commit_id >= self.next_id:
            raise CommitOutOfRange(commit_id, self.next_id)
        # The range is empty if the commit id is late.
        done = range(self.commit_id + 1, commit_id + 1)
        self.commit_id = max(self.commit_id, commit_id)
        self.sent_id = max(self.sent_id, self.commit_id)
        if done and self.held:
            self.held = {seq_id for seq_id in self.held if seq_id > commit_id}
        return done

    def hold(self, ids: Iterable[int]) -> None:
        """Remembers *ids* as held by the receiver. Ignores ids that were never assigned."""
        self.held.update(x for x in ids if self.commit_id < x < self.next_id)

    def resume(self, commit_id: int) -> range:
        """Continues after a reconnect from the commit id that the peer reports.

        Returns and raises the same as :meth:`commit`.
        """
        done = self.commit(commit_id)
        self.go_back(self.commit_id)  # All messages in flight are lost.
        return done

    def go_back(self, seq_id: int) -> None:
        """Marks the ids above *seq_id* to be sent again. The sender skips those in ``held``."""
        self.sent_id = max(min(self.sent_id, seq_id), self.commit_id)


@dataclass(slots=True)
class Inbox:
    """The receiving end.

    Invariant: every id up to ``commit_id`` has been received. ``ahead`` contains the ids after a
    gap, and no id above ``commit_id + window``.
    """

    window: int  # number of messages
    commit_id: int = 0  # highest id without a gap before it; stored
    ahead: set[int] = field(default_factory=set)  # ids received after a gap; stored

    def receive(self, seq_id: int) -> bool:
        """Records *seq_id*. Returns whether the id is new.

        Raises:
            WindowExceeded: *seq_id* is more than ``window`` above ``commit_id``.
        """
        if self.holds(seq_id):
            return False  # The id was sent again after a reconnect; the first copy is held.
        self.check(seq_id)
        if seq_id == self.commit_id + 1 and not self.ahead:
            self.commit_id = seq_id
            return True
        self.ahead.add(seq_id)
        self._close_gap()
        return True

    def begin_at(self, lowest_id: int) -> int:
        """Counts all ids below *lowest_id* as received. Returns how many ids were missing."""
        before, self.commit_id = self.commit_id, max(self.commit_id, lowest_id - 1)
        passed = {seq_id for seq_id in self.ahead if seq_id <= self.commit_id}
        self.ahead -= passed
        lost = self.commit_id - before - len(passed)
        self._close_gap()
        return lost

    def _close_gap(self) -> None:
        while self.commit_id + 1 in self.ahead:
            self.commit_id += 1
            self.ahead.remove(self.commit_id)

    def missing(self, first_id: int, count: int) -> Sequence[int]:
        """Returns, in order, the ids not yet received among the *count* ids from *first_id*."""
        ids = range(first_id, first_id + count)
        if first_id > self.commit_id and not self.ahead:
            return ids
        return [seq_id for seq_id in ids if not self.holds(seq_id)]

    def receive_all(self, ids: Sequence[int]) -> None:
        """Records *ids*, which must be a result of :meth:`missing` and pass :meth:`check`."""
        if not self.ahead and ids[-1] == self.commit_id + len(ids):
            self.commit_id = ids[-1]  # The ids have no gap: they ascend, and all are new.
            return
        for seq_id in ids:
            self.receive(seq_id)

    def holds(self, seq_id: int) -> bool:
        """Returns whether *seq_id* has already been received."""
        return seq_id <= self.commit_id or seq_id in self.ahead

    def check(self, seq_id: int) -> None:
        """Raises WindowExceeded if *seq_id* is more than ``window`` above ``commit_id``."""
        if seq_id > self.commit_id + self.window:
            raise WindowExceeded(seq_id, self.commit_id, self.window)
