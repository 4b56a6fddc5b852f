"""Numbers that never repeat, over restarts and restored stores."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.ids import COUNT_BITS, MARK_SHIFT, Ids, is_lease_of
from tests.qmgrd.core.harness import Manager


def test_numbers_of_what_is_stored_are_of_their_boot() -> None:
    ids = Ids(3, b"")
    assert [ids.next(), ids.next()] == [(3 << 40) + 1, (3 << 40) + 2]


def test_numbers_of_a_boot_do_not_run_into_the_next_ones() -> None:
    ids = Ids(3, b"")
    ids.last = (4 << 40) - 2
    assert ids.next() < Ids(4, b"").next()
    with pytest.raises(AssertionError, match="all ids of this boot"):
        ids.next()


def test_lease_number_tells_its_message_and_is_another_each_time() -> None:
    ids = Ids(1, b"salt")
    counts = [first + i for first in (ids.leases(10) for _ in range(100)) for i in range(10)]
    numbers = [0xFFFF_FFFF >> MARK_SHIFT << COUNT_BITS | count for count in counts]
    assert len(set(numbers)) == 1_000
    assert max(numbers) < 2**63
    assert all(is_lease_of(number, 0xFFFF_FFFF) for number in numbers)
    assert not any(is_lease_of(number, 0x7FFF_FFFF) for number in numbers)
    assert Ids(1, b"pepper").leases(1) not in counts


def test_lease_counts_begin_again_at_the_end() -> None:
    ids = Ids(1, b"")
    ids._leases = 2**40 - 5
    assert [ids.leases(3), ids.leases(3), ids.leases(3)] == [2**40 - 4, 1, 4]


def test_handle_of_before_a_restore_settles_nothing_else() -> None:
    """Arrivals and boot numbers begin again where the store was put back to."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    before = dict(manager.store.rows)
    app.put("Q", b"old")
    (old,) = app.get("Q")
    manager.store.rows.clear()
    manager.store.rows.update(before)
    manager.crash(away_ms=1_000)
    app = manager.connect()
    app.put("Q", b"new")
    assert app.ack(old) == [ErrorCode.LEASE_LOST]
    (new,) = app.get("Q")
    assert (new.arrival, new.body) == (old.arrival, b"new")
    assert app.ack(old) == [ErrorCode.LEASE_LOST]
    assert app.ack(new) == []
