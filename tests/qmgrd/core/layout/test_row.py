"""Tests that a start or a request detects damaged and missing rows."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.boot import StoreForeign
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.row import RowDamaged
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Manager

READ_AT_START = [
    keys.STORE,
    keys.CLOCK,
    keys.CLEAN,
    keys.NEXT_QUEUE,
    keys.SPACE_QUEUE,
    keys.SPACE_LINK,
    keys.SPACE_COUNTERS,
    keys.SPACE_LINK_OUTBOX,
    keys.SPACE_JOB,
]


def flipped(data: bytes, bit: int) -> bytes:
    return (int.from_bytes(data, "big") ^ (1 << bit)).to_bytes(len(data), "big")


@pytest.fixture
def full() -> MemoryStore:
    """Returns a store after a crash, with a row of each kind that a start reads."""
    manager = Manager()
    app = manager.connect()
    for name in ("ORDERS", "OLD"):
        app.ask(m.QueueCreate, name)
        app.put(name, *[b"x"] * 61)
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:7470"]})
    app.ask(m.QueueCreate, "ORDERS@NYC")
    app.put("ORDERS@NYC", b"x")
    manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app.ask(m.QueueDelete, "OLD", True)
    store: MemoryStore = manager.store
    key = keys.of_queue(keys.SPACE_LINK_OUTBOX, manager.queue("@NYC").id)
    rows.put(store.begin(), key, pack([0, None]))
    store.commit()
    Manager(store)
    return store


def refusal(store: MemoryStore) -> str:
    """Returns the error with which a start refuses *store*. The store must stay unchanged."""
    before = dict(store.rows)
    with pytest.raises((RowDamaged, StoreForeign)) as caught:  # The format is checked first.
        Manager(store)
    assert dict(store.rows) == before
    return str(caught.value)


@given(st.binary(min_size=1, max_size=40), st.binary(max_size=200), st.data())
def test_flipped_bit_in_key_or_value_is_noticed(
    key: bytes, row: bytes, data: st.DataObject
) -> None:
    value = rows.seal(key, row)
    assert rows.unseal(key, value) == row
    with pytest.raises(RowDamaged):
        rows.unseal(key, flipped(value, data.draw(st.integers(0, 8 * len(value) - 1))))
    with pytest.raises(RowDamaged):
        rows.unseal(flipped(key, data.draw(st.integers(0, 8 * len(key) - 1))), value)


@pytest.mark.parametrize("value", [b"", b"abc"])
def test_value_too_short_for_a_seal_is_damaged(value: bytes) -> None:
    with pytest.raises(RowDamaged):
        rows.unseal(keys.CLOCK, value)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (keys.STORE, "the store row:"),
        (keys.CLOCK, "the clock row:"),
        (keys.CLEAN, "the mark of a clean stop:"),
        (keys.NEXT_QUEUE, "the id of the next queue:"),
        (
            keys.SPACE_QUEUE + b"ORDERS\xff",
            "the definition of queue ORDERS\N{REPLACEMENT CHARACTER}:",
        ),
        (keys.SPACE_LINK + b"NYC", "the definition of link NYC:"),
        (keys.SPACE_TEMPLATE + b"APP.*", "the definition of template APP.*:"),
        (keys.SPACE_PEER + b"NYC", "the store id of queue manager NYC:"),
        (keys.of_queue(keys.SPACE_COUNTERS, 3), "the counters of queue id 3:"),
        (keys.SPACE_PRODUCER + b"P" * 16, f"the window of producer {b'P'.hex() * 16}:"),
        (keys.SPACE_LINK_INBOX + b"S" * 24, f"the receiving window of stream {b'S'.hex() * 24}:"),
        (keys.of_queue(keys.SPACE_LINK_OUTBOX, 3), "the sending window of queue id 3:"),
        (keys.job(7), "job id 7:"),
        (b"\x77x", "the row 7778:"),
    ],
)
def test_damage_is_named_in_words(key: bytes, words: str) -> None:
    with pytest.raises(RowDamaged) as caught:
        rows.unseal(key, b"rot" * 4)
    assert caught.value.text == f"{words} its checksum is wrong; restore the store from a snapshot"
    assert caught.value.code == ErrorCode.STORE_DAMAGED


def test_queue_is_named_where_its_name_is_known() -> None:
    tx = MemoryStore()
    with pytest.raises(RowDamaged, match=r"the counters of queue ORDERS \(id 3\): it is missing"):
        Counters.read(tx, 3, "ORDERS")


@pytest.mark.parametrize("space", READ_AT_START)
def test_flipped_bit_in_what_a_start_reads_is_refused(full: MemoryStore, space: bytes) -> None:
    dropped = keys.of_queue(keys.SPACE_COUNTERS, 2)  # This queue is waiting for its deletion.
    found = [pair for pair in full.scan(space, keys.after(space)) if pair[0] != dropped]
    assert found
    for key, value in found:
        for bit in range(0, 8 * len(value), 5):
            full.rows[key] = flipped(value, bit)
            assert "; restore the store from a snapshot" in refusal(full)
        full.rows[key] = value
    Manager(full)


def lose(store: MemoryStore, key: bytes) -> None:
    del store.rows[key]


def rename(store: MemoryStore, key: bytes) -> None:
    store.rows[b"\x81" + key[1:]] = store.rows.pop(key)


@pytest.mark.parametrize("harm", [lose, rename])
@pytest.mark.parametrize(
    ("key", "words"),
    [
        (keys.CLOCK, "the clock row: it is missing"),
        (keys.CLEAN, "the mark of a clean stop: it is missing"),
        (keys.NEXT_QUEUE, "the id of the next queue: it is missing"),
        (keys.SPACE_QUEUE + b"ORDERS", "the definition of queue id 1: it is missing"),
        (keys.SPACE_QUEUE + b"@NYC", "the definition of queue id 3: it is missing"),
        (keys.of_queue(keys.SPACE_COUNTERS, 1), "the counters of queue ORDERS (id 1): it is"),
        (keys.SPACE_LINK + b"NYC", "the definition of link NYC: it is missing"),
    ],
)
def test_missing_row_or_row_under_another_key_is_found(
    full: MemoryStore, harm: Callable[[MemoryStore, bytes], None], key: bytes, words: str
) -> None:
    harm(full, key)
    assert words in refusal(full)


@pytest.mark.parametrize(("next_arrival", "sound"), [(62, True), (61, False), (30, False)])
@pytest.mark.parametrize("priorities", [(4,), (9, 4, 0)])
def test_used_arrival_is_never_given_again(
    next_arrival: int, sound: bool, priorities: tuple[int, ...]
) -> None:
    """The last message may have any priority, and may have been set aside."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    for number in range(61):
        app.put("Q", b"x", priority=priorities[number * len(priorities) // 61])
    tx = manager.store.begin()
    last = keys.message(1, keys.LANE_READY, priorities[-1], 61)
    set_aside = keys.message(1, keys.LANE_DAMAGED, priorities[-1], 61)
    tx.put(set_aside, tx.get(last))
    tx.delete(last)
    Counters(next_arrival=next_arrival).write(tx, 1)
    manager.store.commit()
    if sound:
        manager.crash()
        return
    manager.crash()
    (item,) = manager.connect().ask(m.AsideList)["items"]
    assert item["what"] == "the definition of queue Q"
    assert re.search(rf"message \d+ exists, but by the counters .* {next_arrival}$", item["why"])
