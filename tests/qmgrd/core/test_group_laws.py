"""Tests of interleaved producers and readers of many groups, with failures (behaviour.md, E)."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from tests.group_player import group_id
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Delivery, Manager, items, record

LETTERS = "ABCD"
LEASE_MS = 3_600_000  # This is longer than all steps take.
Place = tuple[str, int]


class Groups(RuleBasedStateMachine):
    """A queue manager, and plain sets of the messages put, held by readers, and consumed.

    Each reader is a consumer in logical or pinned order. The invariants are in :meth:`_delivered`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.manager = Manager(queue_defaults={"lease_ms": LEASE_MS})
        self.putter = self.manager.connect("putter")
        self.putter.ask(m.QueueCreate, "Q", {"backout_threshold": 0})
        # messages on the queue by group and number; the value is true if the message is delayed
        self.there: dict[Place, bool] = {}
        self.consumed: set[Place] = set()
        self.lasts: dict[str, int] = {}
        # reader and delivery of each leased message
        self.out: dict[Place, tuple[int, Delivery]] = {}
        # connection, request and order of each reader
        self.readers: dict[int, tuple[Client, int, int]] = {}
        self.count = 0

    # Putting

    @rule(letter=st.sampled_from(LETTERS), data=st.data())
    def put(self, letter: str, data: st.DataObject) -> None:
        known = {n for x, n in self.there if x == letter}
        known |= {n for x, n in self.consumed if x == letter}
        last = self.lasts.get(letter)
        free = [n for n in range(1, (last or max(known, default=0) + 3) + 1) if n not in known]
        if not free:
            return
        number = data.draw(st.sampled_from(free))
        is_last = last is None and number > max(known, default=0) and data.draw(st.booleans())
        delayed = data.draw(st.integers(0, 5)) == 0
        refused = self.putter.put_records("Q", _member(letter, number, is_last, delayed=delayed))
        if refused:  # The old group has ended, and the new one has the same id.
            assert refused[0].code in (ErrorCode.GROUP_NUMBER_TAKEN, ErrorCode.GROUP_ENDED)
            raise AssertionError(f"{letter}{number}: {refused}")
        self.there[letter, number] = delayed
        if is_last:
            self.lasts[letter] = number
        self._hear()

    @rule(letter=st.sampled_from(LETTERS), data=st.data())
    @precondition(lambda self: self.there)
    def put_twice(self, letter: str, data: st.DataObject) -> None:
        """A number that exists, or that has left a continuing group, is refused (D7)."""
        known = sorted(x for x in self.there if x[0] == letter)
        if known:
            letter, number = data.draw(st.sampled_from(known))
            refused = self.putter.put_records("Q", _member(letter, number, False))
            assert refused[0].code in (ErrorCode.GROUP_NUMBER_TAKEN, ErrorCode.GROUP_ENDED)
        self._hear()

    # Getting

    @rule(order=st.sampled_from([m.LOGICAL, m.PINNED]), credit=st.integers(1, 4))
    def open(self, order: int, credit: int) -> None:
        if len(self.readers) < 4:
            self.count += 1
            client = self.manager.connect(f"reader{self.count}")
            request_id = client.next_id()
            client.send(m.Consume(request_id, "Q", credit, 1 << 30, order=order))
            self.readers[self.count] = client, request_id, order
            client.answer(request_id)
        self._hear()

    @rule(data=st.data(), credit=st.integers(1, 4))
    @precondition(lambda self: self.readers)
    def credit(self, data: st.DataObject, credit: int) -> None:
        client, request_id, _ = self.readers[self._reader(data)]
        client.send(m.Credit(request_id, credit, 0))
        self._hear()

    @rule(data=st.data(), action=st.sampled_from([m.ACK, m.ACK, m.ACK, m.RELEASE, m.UNREAD]))
    @precondition(lambda self: self.out)
    def settle(self, data: st.DataObject, action: int) -> None:
        place = data.draw(st.sampled_from(sorted(self.out)))
        reader, delivery = self.out.pop(place)
        codes = self.readers[reader][0].settle(action, delivery)
        assert codes == [], f"{place} was lost by reader {reader}, which has the lease"
        if action == m.ACK:
            self._consume(place)
        else:
            behind = self._take_back(place)
            codes = [code for who, x in behind for code in self.readers[who][0].ack(x)]
            assert codes == [ErrorCode.LEASE_LOST] * len(behind), "the member did not return"
        self._hear()

    @rule(data=st.data(), delay_ms=st.integers(1, 5_000))
    @precondition(lambda self: self.out)
    def fail_with_delay(self, data: st.DataObject, delay_ms: int) -> None:
        place = data.draw(st.sampled_from(sorted(self.out)))
        reader, delivery = self.out.pop(place)
        client = self.readers[reader][0]
        settle_id = client.next_id()
        client.send(m.Settle(settle_id, m.RELEASE, delivery.queue_id, delivery.handle, 0, delay_ms))
        client._wait(lambda x: type(x) is m.Settled and x.settle_id >= settle_id)
        self.there[place] = True
        self._take_back(place)
        self._hear()

    @rule(data=st.data())
    @precondition(lambda self: self.readers)
    def cancel(self, data: st.DataObject) -> None:
        """Cancels a reader. Until its leases are settled, other readers do not get its messages."""
        reader = self._reader(data)
        client, request_id, _ = self.readers[reader]
        client.send(m.Cancel(request_id))
        self._hear()
        if not any(who == reader for who, _ in self.out.values()):
            del self.readers[reader]

    @rule(data=st.data())
    @precondition(lambda self: self.readers)
    def lose(self, data: st.DataObject) -> None:
        reader = self._reader(data)
        client, _, _ = self.readers.pop(reader)
        client.hang_up()
        self.out = {place: x for place, x in self.out.items() if x[0] != reader}
        self._hear()

    @rule(ms=st.sampled_from([1, 1_000, 5_000, 20_000, LEASE_MS]))
    def wait(self, ms: int) -> None:
        self.manager.advance(ms)
        if ms == LEASE_MS:
            self.out.clear()  # All leases have ended. The messages return in one turn, in order.
        self.there = dict.fromkeys(self.there, False) if ms >= 5_000 else self.there
        self.manager.turn()
        self._hear()

    @rule()
    def crash(self) -> None:
        self.manager.crash()
        self._begin_anew()

    @rule()
    def restart(self) -> None:
        self.manager.restart()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.readers.clear()
        self.out.clear()
        self.putter = self.manager.connect("putter")

    def _reader(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.readers)))

    # Invariants

    def _hear(self) -> None:
        self.manager.rest()
        for number, (client, _, order) in list(self.readers.items()):
            for message in client.hear():
                if type(message) is m.Deliver:
                    for delivery in items(message):
                        self._delivered(number, order, delivery)

    def _delivered(self, reader: int, order: int, delivery: Delivery) -> None:
        letter, number = _place(delivery)
        place = letter, number
        assert place in self.there, f"{place} was consumed or never put"
        assert place not in self.out, f"{place} is leased by {self.out[place][0]}"
        holders = {who for (x, _), (who, _) in self.out.items() if x == letter}
        assert holders <= {reader}, f"{place} to {reader}, the group is held by {holders}"
        before = {(letter, n) for n in range(1, number)}
        waiting = before - self.consumed - {x for x, (who, _) in self.out.items() if who == reader}
        assert not waiting, f"{place} before {sorted(waiting)}"
        if order == m.LOGICAL:
            open_ = {x for x, (who, _) in self.out.items() if who == reader and x[0] != letter}
            for other in open_:
                assert self._has_ended(other[0]), f"{place}, and the reader is in {other}"
        self.out[place] = reader, delivery

    def _has_ended(self, letter: str) -> bool:
        """Returns whether all messages of a group are consumed or leased."""
        last = self.lasts.get(letter)
        known = {n for x, n in self.consumed | set(self.out) if x == letter}
        return last is not None and known >= set(range(1, last + 1))

    def _consume(self, place: Place) -> None:
        del self.there[place]
        self.consumed.add(place)
        letter = place[0]
        last = self.lasts.get(letter)
        if last and {n for x, n in self.consumed if x == letter} >= set(range(1, last + 1)):
            # The group has ended. The next group with this id is a new one.
            del self.lasts[letter]
            self.consumed = {x for x in self.consumed if x[0] != letter}

    def _take_back(self, place: Place) -> list[tuple[int, Delivery]]:
        """Returns the messages after a returned one, which return with it."""
        letter, number = place
        behind = [x for x in self.out if x[0] == letter and x[1] > number]
        return [self.out.pop(x) for x in behind]

    @invariant()
    def all_agrees(self) -> None:
        audit(self.manager)
        in_hands = {delivery.arrival for _, delivery in self.out.values()}
        assert set(self.manager.queue("Q").leases) == in_hands

    def teardown(self) -> None:
        """Complete groups never wait: their reader gets all messages of each group, in order."""
        self._begin_all_anew()
        reader = self.manager.connect("last")
        request_id = reader.next_id()
        reader.send(m.Consume(request_id, "Q", 1_000, 1 << 30, order=m.PINNED))
        reader.answer(request_id)
        self.manager.rest()
        got: dict[str, list[int]] = {}
        for delivery in reader.delivered():
            letter, number = _place(delivery)
            got.setdefault(letter, []).append(number)
        for letter in LETTERS:
            there = sorted(n for x, n in self.there if x == letter)
            done = {n for x, n in self.consumed if x == letter}
            wanted: list[int] = []
            for number in there:
                if set(range(1, number)) <= done | set(wanted):
                    wanted.append(number)
            assert got.get(letter, []) == wanted, letter

    def _begin_all_anew(self) -> None:
        for client, _, _ in self.readers.values():
            client.hang_up()
        self.manager.turn(60_000)
        self.manager.rest()


def _member(letter: str, number: int, is_last: bool, *, delayed: bool = False) -> bytes:
    fields: dict[str, Any] = {"delay_ms": 3_000} if delayed else {}
    return record(b"", group=(group_id(letter), number, is_last), **fields)


def _place(delivery: Delivery) -> Place:
    group = records.decode(delivery.record).group
    assert group is not None
    return group[0][:1].decode(), group[1]


pytestmark = pytest.mark.slow
TestGroups = Groups.TestCase
TestGroups.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
