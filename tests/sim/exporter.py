"""An export of history, which reads rows, stores them, commits its cursor, and crashes.

    find the cursor ──▶ read after it ──▶ write ──▶ commit ─┐
                         ▲                                  │
                         └──────────────────────────────────┘

Written rows survive a crash of the export, but its memory does not. After a crash, the export asks
for its cursor. The rows that it reads again must equal the written rows. At the end, the export has
each row exactly once.
"""

from random import Random
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.sim.client import Client
from tests.sim.lab import Lab
from tests.sim.ledger import require

CURSOR = "EXPORT"


class Exporter(Client):
    """An export. Invariant: rows up to ``_after`` are written.

    Rows up to ``committed`` are never read again.
    """

    def __init__(self, lab: Lab, chances: Random, where: str) -> None:
        super().__init__(lab, f"{where}-export", where)
        self.chances = chances
        self.crashes = chances.choice([0, 0.02, 0.2])
        self.slow = chances.choice([0, 0.5, 0.95])
        # written rows; these and the next three fields survive a crash
        self.written: dict[int, bytes] = {}
        self.begun = -1  # row after which the export began
        self.committed = -1
        self.rows_lost = 0
        self._forget()

    def crash(self) -> None:
        """Loses the connection and the position."""
        self.hang_up()
        self._forget()

    def _forget(self) -> None:
        self._after = -1  # After a crash, the position is unknown.
        self._open: Any | None = None

    @property
    def done(self) -> bool:
        """True if the export has all rows."""
        return self._open is None and self._after == self.committed == self.node.replay.next - 1

    def act(self, *, is_chaos: bool = True) -> None:
        """Performs the next action, and sometimes crashes."""
        dice = self.chances.random()
        if is_chaos and dice < self.crashes:
            self.crash()
        elif self.wire is None:
            self.dial()
        elif self.done:
            return  # Otherwise, the export would ask again and again, and time would not advance.
        elif self.is_open and self._open is None and (dice > self.slow or not is_chaos):
            self._ask()

    def _ask(self) -> None:
        if self._after < 0:
            request: Any = m.HistoryShow(0)
            if self.begun >= 0 and self.chances.random() < 0.5:
                request = m.CursorCommit(0, CURSOR, self.begun)  # The cursor may be ahead.
        elif self._after > self.committed and self.chances.random() < 0.5:
            request = m.CursorCommit(0, CURSOR, self._after)
        else:
            request = m.HistoryRead(0, self._after, 0, self.chances.choice([1, 5_000, 1 << 20]))
        self._open = request._replace(request_id=self.next_id())
        self.send(self._open)

    def took(self, message: Any) -> None:
        request, self._open = self._open, None
        assert request is not None
        assert type(message) in (m.Ok, m.Error), message
        if type(message) is m.Error:
            is_over = message.code in (ErrorCode.HISTORY_DROPPED, ErrorCode.STORE_FULL)
            require(is_over, "exported_once", f"{self.name}: {request}: {message.text}")
            self._after = -1
        elif type(request) is m.HistoryRead:
            self._write(message.value["rows"])
        elif type(request) is m.HistoryShow:
            self._begin(message.value)
        else:
            self._moved(message.value)

    def _begin(self, shown: dict[str, Any]) -> None:
        """Finds the cursor, or creates it at the current start of the history."""
        for row in shown["cursors"]:
            if row["cursor"] == CURSOR:  # Hostile clients also have cursors.
                self._moved(row)
                return
        require(self.committed < 0, "exported_once", f"{self.name}: its cursor was deleted")
        self._after = shown["first"] - 1
        self._open = m.CursorCommit(self.next_id(), CURSOR, self._after)
        self.send(self._open)

    def _moved(self, row: dict[str, Any]) -> None:
        position, fact = row["position"], f"{self.name} at {self.committed}: {row}"
        require(position >= self.committed, "exported_once", f"its cursor moved back, {fact}")
        if self.begun < 0:
            self.begun = position
        self.committed, self.rows_lost = position, row["lost"]
        self._after = max(self._after, position)

    def _write(self, found: list[tuple[int, bytes]]) -> None:
        for seq, data in found:
            fact = f"{self.name} after {self._after}: row {seq}"
            require(seq == self._after + 1, "exported_once", fact)
            same = self.written.setdefault(seq, data) == data
            require(same, "exported_once", f"{fact} differs from the earlier one")
            self._after = seq

    def disconnected(self) -> None:
        self._open = None

    def balance(self) -> None:
        """Checks the written rows against the complete history."""
        stored = self.node.replay.rows
        last = self.node.replay.next - 1
        fact = f"{self.name}: from {self.begun} to {last}, {self.rows_lost} were lost"
        missing = set(range(self.begun + 1, last + 1)) - self.written.keys()
        require(len(missing) <= self.rows_lost, "exported_once", f"{fact}, missing: {missing}")
        differ = [seq for seq, data in self.written.items() if stored.get(seq, data) != data]
        require(not differ, "exported_once", f"{fact}, different from the store: {differ}")
