"""Rules of operators: moves, purges, browses, lists and changes of attributes."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.actor import Actor
from tests.qmgrd.core.machine.bench import ALL_QUEUES, ARCHIVE
from tests.qmgrd.core.machine.chances import ALTERATIONS, GROUPS, QUEUE_NAMES, SEAT_NUMBERS, WHERES
from tests.qmgrd.core.machine.message import Selection
from tests.qmgrd.core.machine.model import DEAD_LETTERS, RETRIES_MAX
from tests.qmgrd.core.machine.seat import Seat


class Operators(Actor):
    """The rules for operators."""

    def _can_move(self, target: str) -> bool:
        """Returns whether a move to that queue can complete without a wait."""
        bounds = self.model.bounds[target]
        unheld = not any(x.queue == target for unit in self.model.units.values() for x in unit.puts)
        return unheld and not bounds["put_inhibit"] and bounds["depth_max"] > 100_000

    @precondition(lambda self: self._can_move("Q") and self._can_move("B"))
    @rule(
        seat=SEAT_NUMBERS,
        source=st.sampled_from([DEAD_LETTERS, DEAD_LETTERS, "B"]),
        where=WHERES,
        most=st.integers(0, 2),
    )
    def send_back(self, seat: int, source: str, where: str, most: int) -> None:
        """Moves dead letters back to their original queues."""
        self._move(seat, source, "", where, most, copy=False)

    @precondition(lambda self: self._can_move("B"))
    @rule(
        seat=SEAT_NUMBERS,
        source=st.sampled_from(["Q", DEAD_LETTERS]),
        where=WHERES,
        most=st.integers(0, 2),
    )
    def move(self, seat: int, source: str, where: str, most: int) -> None:
        self._move(seat, source, "B", where, most, copy=False)

    @rule(seat=SEAT_NUMBERS, source=QUEUE_NAMES, where=WHERES, most=st.integers(0, 2))
    def copy(self, seat: int, source: str, where: str, most: int) -> None:
        self._move(seat, source, ARCHIVE, where, most, copy=True)

    def _move(
        self, seat: int, source: str, target: str, where: str, most: int, *, copy: bool
    ) -> None:
        model = self.bench.begin()
        model.move(source, target, Selection(where).wants, most or 1_000, copy=copy)
        row = self.bench.ask(
            self._seat(seat), m.QueueMove, source, target, where, most, 0, copy, RETRIES_MAX
        )
        assert row["job"]
        self.bench.end()

    @rule(seat=SEAT_NUMBERS, queue=st.sampled_from([*ALL_QUEUES, ARCHIVE]), where=WHERES)
    def purge(self, seat: int, queue: str, where: str) -> None:
        model, wanted = self.bench.begin(), Selection(where)
        there = [*model.on(queue), *model.on(queue, delayed=True)]
        gone = [x for x in there if x.lease is None]
        if where:
            gone = [x for x in gone if not x.is_expired(model.now_ms) and wanted.wants(x)]
        for message in gone:
            model.remove(message)
        value = self.bench.ask(self._seat(seat), m.QueuePurge, queue, where)
        assert value == {"messages": len(gone)}
        self.bench.end()

    @rule(
        seat=SEAT_NUMBERS,
        queue=QUEUE_NAMES,
        page=st.integers(1, 5),
        delayed=st.booleans(),
        where=WHERES,
    )
    def browse(self, seat: int, queue: str, page: int, delayed: bool, where: str) -> None:
        self.bench.begin()
        self.bench.browse(self._seat(seat), queue, page, Selection(where), delayed=delayed)
        self.bench.end()

    @rule(seat=SEAT_NUMBERS, page=st.integers(1, 3), key=st.sampled_from([b"k1", *GROUPS]))
    def browse_by_index(self, seat: int, page: int, key: bytes) -> None:
        self.bench.begin()
        is_group = len(key) == 24
        wanted = Selection(group_id=key) if is_group else Selection(correlation_id=key)
        # A cursor at the end of a page within a group does not contain the numbers already shown.
        self.bench.browse(self._seat(seat), "Q", 1_000 if is_group else page, wanted)
        self.bench.end()

    @rule(seat=SEAT_NUMBERS, queue=st.sampled_from(ALL_QUEUES))
    def show(self, seat: int, queue: str) -> None:
        model = self.bench.begin()
        row = self.bench.ask(self._seat(seat), m.QueueShow, queue)
        ready = model.on(queue)
        leased = sum(x.lease is not None for x in ready)
        held = sum(x.queue == queue for unit in model.units.values() for x in unit.puts)
        found = (row["depth"], row["delayed"], row["leased"], row["ready"], row["held"])
        delayed = len(model.on(queue, delayed=True))
        assert found == (len(ready), delayed, leased, len(ready) - leased, held)
        self.bench.end()

    @rule(seat=SEAT_NUMBERS, change=ALTERATIONS)
    def alter(self, seat: int, change: tuple[str, Any]) -> None:
        self._alter(self._seat(seat), "Q", *change)

    @rule(seat=SEAT_NUMBERS, name=st.sampled_from(["", "B"]))
    def alter_backout_queue(self, seat: int, name: str) -> None:
        self._alter(self._seat(seat), "Q", "backout_queue", name)

    @rule(
        seat=SEAT_NUMBERS,
        queue=st.sampled_from(["B", DEAD_LETTERS]),
        change=st.sampled_from(
            [
                ("put_inhibit", True),
                ("put_inhibit", False),
                ("put_inhibit", False),
                ("backout_threshold", 1),
                ("dedup_retention_ms", 60_000),
                ("retry_initial_ms", 200),
            ]
        ),
    )
    def alter_another(self, seat: int, queue: str, change: tuple[str, Any]) -> None:
        self._alter(self._seat(seat), queue, *change)

    def _alter(self, seat: Seat, queue: str, name: str, value: Any) -> None:
        model = self.bench.begin()
        model.bounds[queue][name] = value
        ended = []
        if model.bounds[queue]["get_inhibit"]:
            ended = [x for x in model.waiters if x.queue == queue and x.until_ms is not None]
            model.waiters = [x for x in model.waiters if x not in ended]
        request_id = seat.client.next_id()
        heard = self.bench.say(seat, m.QueueAlter(request_id, queue, {name: value}))
        for waiter in ended:
            self.bench.expected.pop(waiter.request_id, None)
            own = self._seat(waiter.seat)
            heard += own.heard
            own.heard = []
        refused = [x for x in heard if type(x) is m.Error]
        assert {x.request_id for x in refused} == {x.request_id for x in ended}
        assert all(x.code == ErrorCode.GET_INHIBITED for x in refused)
        (answer,) = [x for x in heard if type(x) is m.Ok]
        assert answer.value[name] == value, (name, value)
        self.bench.end()
