"""Rules for units of work, and for programs that resend dead letters in units of work."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.bench import QUEUES
from tests.qmgrd.core.machine.chances import LATE, NUMBERS, QUEUE_NAMES, SEAT_NUMBERS, WISHES
from tests.qmgrd.core.machine.gets import Gets
from tests.qmgrd.core.machine.message import Selection, Unit, Wish
from tests.qmgrd.core.machine.model import DEAD_LETTERS
from tests.qmgrd.core.machine.puts import Puts
from tests.qmgrd.core.machine.seat import Handle, Seat, Sent
from tests.qmgrd.core.machine.settles import Settles


class Units(Puts, Gets, Settles):
    """The rules for the units of work of all seats."""

    @rule(seat=SEAT_NUMBERS)
    def unit_begin(self, seat: int) -> None:
        bench, found = self.bench, self._seat(seat)
        model = bench.begin()
        if sum(key[0] == seat for key in model.units) < 2:
            found.units += 1
            model.units[seat, found.units] = Unit(found.units, model.now_ms)
            assert bench.ask(found, m.UnitBegin, found.units) is None
        else:
            assert bench.ask(found, m.UnitBegin, found.units) == ErrorCode.VALUE_INVALID
        bench.end()

    def _unit(self, number: int) -> tuple[Seat, Unit]:
        (seat, _), unit = list(self.model.units.items())[number % len(self.model.units)]
        return self._seat(seat), unit

    @precondition(lambda self: self.model.units)
    @rule(number=NUMBERS, queue=st.sampled_from(QUEUES), wishes=st.lists(WISHES, max_size=3))
    def unit_put(self, number: int, queue: str, wishes: list[Wish]) -> None:
        self.bench.begin()
        self._unit_put(*self._unit(number), queue, self._named(queue, wishes))
        self.bench.end()

    def _unit_put(self, seat: Seat, unit: Unit, queue: str, wishes: list[Wish]) -> None:
        bench, model = self.bench, self.model
        batch = [bench.record(wish) for wish in wishes]
        refused: list[list[int]] = []
        refused_all = model.refusal_of_all(queue)
        for index, (wish, data) in enumerate(zip(wishes, batch, strict=True)):
            if refused_all:
                break
            if code := model.refusal(queue, wish, len(data), is_held=True):
                refused.append([index, int(code)])
                continue
            unit.puts.append(model.arrive(queue, wish))
        value = bench.ask(seat, m.UnitPut, unit.number, queue, batch)
        if refused_all:
            assert value == refused_all
            return
        assert [found[:2] for found in value[0]] == refused
        times = [first + n for _, first, count in value[1] for n in range(count)]
        bench.stamped(times, durable=False)

    @precondition(lambda self: self.model.units and any(self._everywhere()))
    @rule(number=NUMBERS)
    def unit_put_duplicate(self, number: int) -> None:
        known = [x for x in self._everywhere() if x.wish.uid and x.queue in QUEUES]
        if not known:
            return
        found = known[number % len(known)]
        self.bench.begin()
        wish = Wish(b"0:again", uid=found.wish.uid)
        self._unit_put(*self._unit(number), found.queue, [wish])
        self.bench.end()

    @precondition(lambda self: self.model.units and self.bench.handles)
    @rule(number=NUMBERS, which=NUMBERS, late=LATE, count=st.integers(1, 3))
    def unit_ack(self, number: int, which: int, late: bool, count: int) -> None:
        seat, unit = self._unit(number)
        for more in range(count):
            handle = self._handle_of(which + more, late=late)
            self._settle(seat, m.ACK, handle, unit=unit.number)

    @precondition(lambda self: self.model.units)
    @rule(number=NUMBERS, queue=QUEUE_NAMES, count=st.integers(1, 4))
    def unit_get(self, number: int, queue: str, count: int) -> None:
        """Gets messages in a unit of work, as a program does."""
        seat, unit = self._unit(number)
        known = list(self.bench.handles)
        self._get(seat, queue, count, 0, 0, Selection())
        for handle in [x for x in self.bench.handles if x not in known]:
            self._settle(seat, m.ACK, handle, unit=unit.number)

    @rule(seat=SEAT_NUMBERS, count=st.integers(1, 4))
    def unit_whole(self, seat: int, count: int) -> None:
        """Runs a unit of work from begin to commit, as programs do."""
        self.unit_begin(seat)
        number = max(index for index, key in enumerate(self.model.units) if key[0] == seat)
        self.unit_get(number, "Q", count)
        self.unit_commit(number, 0)

    @precondition(lambda self: self.model.units)
    @rule(number=NUMBERS, wrong=st.sampled_from([0, 0, 0, 1]))
    def unit_commit(self, number: int, wrong: int) -> None:
        """G20, G23: a commit applies all puts and gets of a unit."""
        seat, unit = self._unit(number)
        self._commit(seat, unit, len(unit.puts) + wrong, len(unit.gets))

    def _commit(self, seat: Seat, unit: Unit, puts: int, gets: int) -> None:
        model = self.bench.begin()
        seq_id, seat.next_id = seat.next_id, seat.next_id + 1
        refused: list[list[int]] = []
        if (seat.number, unit.number) not in model.units:
            refused = [[seq_id, int(ErrorCode.UNIT_BACKED_OUT)]]
        elif (puts, gets) != (len(unit.puts), len(unit.gets)):
            refused = [[seq_id, int(ErrorCode.UNIT_INCOMPLETE)]]
            model.back_out((seat.number, unit.number))
        else:
            del model.units[seat.number, unit.number]
            model.commit(unit)
            self.consumed += [x.wish.uid for x in unit.gets if x.wish.uid is not None]
        model.sweep()
        seat.last = Sent(m.UnitCommit, (unit.number, puts, gets), seq_id, refused)
        self._send_numbered(seat)
        self.bench.end()

    @rule(seat=SEAT_NUMBERS)
    def unit_commit_of_none(self, seat: int) -> None:
        self._commit(self._seat(seat), Unit(99, 0), 1, 1)

    @precondition(lambda self: self.model.units)
    @rule(number=NUMBERS)
    def unit_backout(self, number: int) -> None:
        """G20, G21: a backout undoes all puts and gets of a unit."""
        seat, unit = self._unit(number)
        model = self.bench.begin()
        model.back_out((seat.number, unit.number))
        model.sweep()
        value = self.bench.ask(seat, m.UnitBackout, unit.number)
        assert value == [len(unit.puts), len(unit.gets)]
        self.bench.end()

    def _replayable(self) -> list[Handle]:
        return [
            x
            for x in self.bench.handles
            if x.message in self.model.messages
            and x.message.queue == DEAD_LETTERS
            and x.message.lease is not None
            and not x.message.lease.unit
            and x.delivery.number == x.message.lease.number
        ]

    @precondition(lambda self: self.model.units and self._replayable())
    @rule(number=NUMBERS, which=NUMBERS)
    def replay(self, number: int, which: int) -> None:
        """Puts a dead letter on its original queue again, under the same UID, in a unit of work."""
        seat, unit = self._unit(number)
        handle = self._replayable()[which % len(self._replayable())]
        message = handle.message
        if any(x.uid == message.uid and x is not message for x in self._everywhere()):
            return
        self._settle(seat, m.ACK, handle, unit=unit.number)
        self.bench.begin()
        self._unit_put(seat, unit, "Q", [message.wish._replace(uid=message.uid)])
        self.bench.end()
