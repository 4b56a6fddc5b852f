"""Tests that each unit of work and each queue count the messages that units hold."""

from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.queue.dedup import UidVerdict
from qmgrd.core.queue.held_puts import HeldPut
from qmgrd.core.queue.put import Prepared
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.unit import PUT_BYTES, SessionUnit
from tests.qmgrd.core.harness import numbers


def queue(number: int) -> Queue:
    bounds = Bounds(10, 1_000, 1_000, 10)
    return Queue(number, f"Q{number}", bounds, Counters(), Ids(1), Schedule())


def session() -> Session:
    return Session(1, "app", b"", numbers())


def held(queue: Queue, size: int, name: bytes) -> HeldPut:
    record = bytes(size)
    prepared = Prepared(record, name, False, UidVerdict.FAST, 4, 0, 0, 0, False, b"")
    return HeldPut(queue, prepared, 1, name)


def test_unit_and_queues_count_what_is_held() -> None:
    unit, first, second = SessionUnit(7, session()), queue(1), queue(2)
    for each in (held(first, 10, b"a"), held(second, 20, b"b"), held(first, 30, b"c")):
        unit.add_puts(each.queue, [each], 3)
    assert (unit.number, len(unit.puts), unit.bytes, unit.rows) == (7, 3, 60, 9)
    assert (first.uncommitted.messages, first.uncommitted.bytes, [*first.uncommitted.arrivals]) == (
        2,
        40,
        [b"a", b"c"],
    )
    assert (second.messages, second.has_room(9, 980), second.has_room(10, 0)) == (1, True, False)
    assert not second.has_room(1, 981)


def test_released_puts_leave_the_unit_and_the_queue() -> None:
    unit, first = SessionUnit(7, session()), queue(1)
    unit.add_puts(first, [held(first, 10, b"a")], 3)
    assert [found.index_key for found in unit.remove_puts()] == [b"a"]
    assert (first.uncommitted.arrivals, first.uncommitted.messages, first.uncommitted.bytes) == (
        {},
        0,
        0,
    )
    assert unit.remove_puts() == []


def test_session_counts_what_its_units_hold_in_memory() -> None:
    owner, target = session(), queue(1)
    first, second = SessionUnit(7, owner), SessionUnit(8, owner)
    first.add_puts(target, [held(target, 10, b"a"), held(target, 20, b"b")], 6)
    second.add_puts(target, [held(target, 5, b"c")], 3)
    assert (first.held_bytes, owner.unit_bytes) == (30 + 2 * PUT_BYTES, 35 + 3 * PUT_BYTES)
    first.remove_puts()
    assert (first.held_bytes, owner.unit_bytes) == (0, 5 + PUT_BYTES)


def test_unit_holds_gets_by_queue_and_knows_whose_it_is() -> None:
    unit, first, second = SessionUnit(7, session()), queue(1), queue(2)
    lessee = unit.lessee(first)
    assert lessee.is_unit
    assert unit.lessee(first) is lessee
    assert unit.lessee(second) is not lessee
    assert lessee.client == "app"
    assert unit.gets == 0
