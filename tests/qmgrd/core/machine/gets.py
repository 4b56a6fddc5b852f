"""Rules that get messages: immediately, by selection, after a wait, or through a consumer."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.actor import Actor
from tests.qmgrd.core.machine.chances import (
    GROUPS,
    LEASES_MS,
    NUMBERS,
    QUEUE_NAMES,
    SEAT_NUMBERS,
    WHERES,
)
from tests.qmgrd.core.machine.message import CONDITIONS, Selection, Waiter
from tests.qmgrd.core.machine.seat import Seat


class Gets(Actor):
    """Rules of gets and consumers."""

    def _get(
        self, seat: Seat, queue: str, count: int, wait_ms: int, lease_ms: int, wanted: Selection
    ) -> None:
        bench, model = self.bench, self.model
        bench.begin()
        bounds = model.bounds[queue]
        request_id = seat.client.next_id()
        message = m.Get(
            request_id, queue, count, wait_ms, lease_ms, **bench.selection_fields(wanted)
        )
        if bounds["get_inhibit"]:
            (answer,) = bench.say(seat, message, request_id)
            assert answer.code == ErrorCode.GET_INHIBITED
        else:
            bench.wait_for(
                Waiter(
                    request_id,
                    seat.number,
                    queue,
                    count,
                    lease_ms or bounds["lease_ms"],
                    wanted,
                    model.now_ms + wait_ms,
                )
            )
            assert bench.say(seat, message) == []
        bench.end()

    @rule(seat=SEAT_NUMBERS, queue=QUEUE_NAMES, count=st.integers(1, 5), lease_ms=LEASES_MS)
    def get(self, seat: int, queue: str, count: int, lease_ms: int) -> None:
        self._get(self._seat(seat), queue, count, 0, lease_ms, Selection())

    @rule(seat=SEAT_NUMBERS, count=st.integers(1, 3), lease_ms=LEASES_MS, number=NUMBERS)
    def get_by_uid(self, seat: int, count: int, lease_ms: int, number: int) -> None:
        known = self.model.on("Q") + self.model.on("Q", delayed=True)
        uid = known[number % len(known)].uid if known else ("NOBODY", 1)
        self._get(self._seat(seat), "Q", count, 0, lease_ms, Selection(uid=uid))

    @rule(
        seat=SEAT_NUMBERS,
        queue=QUEUE_NAMES,
        key=st.sampled_from([b"k1", b"k2"]),
        count=st.integers(1, 3),
    )
    def get_by_correlation(self, seat: int, queue: str, key: bytes, count: int) -> None:
        self._get(self._seat(seat), queue, count, 0, 500, Selection(correlation_id=key))

    @rule(
        seat=SEAT_NUMBERS, queue=QUEUE_NAMES, key=st.sampled_from(GROUPS), count=st.integers(1, 3)
    )
    def get_by_group(self, seat: int, queue: str, key: bytes, count: int) -> None:
        self._get(self._seat(seat), queue, count, 0, 500, Selection(group_id=key))

    @rule(
        seat=SEAT_NUMBERS,
        queue=QUEUE_NAMES,
        where=st.sampled_from(list(CONDITIONS)),
        count=st.integers(1, 3),
    )
    def get_by_selector(self, seat: int, queue: str, where: str, count: int) -> None:
        self._get(self._seat(seat), queue, count, 0, 500, Selection(where))

    @rule(seat=SEAT_NUMBERS, where=WHERES, key=st.booleans())
    def get_that_waits(self, seat: int, where: str, key: bool) -> None:
        wanted = Selection(correlation_id=b"k1") if key and not where else Selection(where)
        self._get(self._seat(seat), "Q", 1, 2_437, 500, wanted)

    @precondition(lambda self: len(self.model.waiters) < 4)
    @rule(
        seat=SEAT_NUMBERS,
        queue=QUEUE_NAMES,
        credit=st.integers(1, 4),
        lease_ms=LEASES_MS,
        where=WHERES,
    )
    def consume(self, seat: int, queue: str, credit: int, lease_ms: int, where: str) -> None:
        bench, found = self.bench, self._seat(seat)
        model = bench.begin()
        length_ms = lease_ms or model.bounds[queue]["lease_ms"]
        request_id = found.client.next_id()
        waiter = Waiter(request_id, seat, queue, credit, length_ms, Selection(where))
        bench.wait_for(waiter)
        message = m.Consume(request_id, queue, credit, 1 << 30, lease_ms, where)
        (answer,) = bench.say(found, message, request_id)
        assert answer.value[1] == length_ms
        bench.end()

    def _consumers(self) -> list[Waiter]:
        return [x for x in self.model.waiters if x.until_ms is None]

    @precondition(lambda self: self._consumers())
    @rule(number=NUMBERS, more=st.integers(1, 3))
    def credit(self, number: int, more: int) -> None:
        waiter = self._consumers()[number % len(self._consumers())]
        self.bench.begin()
        waiter.credit += more
        message = m.Credit(waiter.request_id, more, 1 << 20)
        assert self.bench.say(self._seat(waiter.seat), message) == []
        self.bench.end()

    @precondition(lambda self: self.model.waiters)
    @rule(number=NUMBERS)
    def cancel(self, number: int) -> None:
        waiter = self.model.waiters[number % len(self.model.waiters)]
        self.bench.begin()
        self.model.waiters.remove(waiter)
        self.bench.expected.pop(waiter.request_id, None)
        message = m.Cancel(waiter.request_id)
        (answer,) = self.bench.say(self._seat(waiter.seat), message, waiter.request_id)
        assert type(answer) is m.Ended
        self.bench.end()
