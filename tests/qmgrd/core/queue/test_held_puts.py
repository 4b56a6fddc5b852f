"""Tests that puts held by a unit of work leave the same rows as other puts."""

from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue.held_puts import HeldPut, append_held
from qmgrd.core.queue.put import prepare, prepare_plain, put
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import record

NOW = Now(1, 1_700_000_000_000_000)
PLAIN = [record(b"1"), record(b"2", correlation_id=b"c"), record(b"3")]
OTHER = record(b"4", expiry_ms=1_000)


def new_queue() -> Queue:
    return Queue(1, "Q", Bounds(100, 10**6, 1_000, 100), Counters(), Ids(1), Schedule())


def test_held_puts_are_appended_as_others_are() -> None:
    queue, store, stamper = new_queue(), MemoryStore(), Stamper("QM1", 0)
    expected, expected_store = new_queue(), MemoryStore()
    put(expected, expected_store, NOW, Stamper("QM1", 0), [*PLAIN, OTHER], 1_000)

    stamper.catch_up(NOW.wall_us)
    prepared = prepare_plain(queue, NOW, stamper, PLAIN, 1_000, b"")
    prepared.append(prepare(queue, store, NOW, stamper, OTHER, 1_000, b""))
    assert store.rows == {}
    held = [HeldPut(queue, one, 0, queue.origins.index_key(one.trailer)) for one in prepared]
    append_held(queue, store, held)
    assert store.rows_used == expected_store.rows_used

    queue.flush(store)
    expected.flush(expected_store)
    assert store.rows == expected_store.rows
