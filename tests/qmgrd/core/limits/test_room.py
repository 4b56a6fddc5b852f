"""Tests of free space and its reserves. All kinds of acks must succeed in a small map."""

import random
from pathlib import Path
from typing import Any

import pytest

from qmgr_config.model import Config, StoreConfig
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout.kv import Space
from qmgrd.core.limits import room
from qmgrd.core.limits.room import PAGE_BYTES, TurnRoom, is_in_sequence, marks_of, room_of
from tests.disk_stores import disk_store
from tests.growing import heavy
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.unit_of_work import UnitOfWork

MIB = 1 << 20
CONFIG = Config(store=StoreConfig(map_bytes=100 * MIB, free_disk_min_bytes=40 * MIB))


def at(used_mib: int, disk_mib: int = 1_000, held_mib: int = 0) -> TurnRoom:
    marks = marks_of(CONFIG, 100 * MIB)
    return room_of(marks, Space(used_mib * MIB, 100 * MIB, disk_mib * MIB, held_mib * MIB, 0))


@pytest.mark.parametrize(
    ("used_mib", "puts", "publications", "operators"),
    [
        (79, True, True, True),
        (80, False, True, True),
        (85, False, False, True),
        (89, False, False, True),
        (90, False, False, False),
    ],
)
def test_puts_stop_first_and_operators_last(
    used_mib: int, puts: bool, publications: bool, operators: bool
) -> None:
    found = at(used_mib)
    assert (not found.why_full, not found.is_cramped, not found.why_operators_wait) == (
        puts,
        publications,
        operators,
    )
    assert (found.put_bytes, found.operator_bytes) == ((80 - used_mib) * MIB, (90 - used_mib) * MIB)


@pytest.mark.parametrize(
    ("disk_mib", "puts", "publications", "operators"),
    [
        (40, True, True, True),
        (39, False, True, True),
        (19, False, False, True),
        (9, False, False, False),
    ],
)
def test_nearly_full_disk_has_the_same_limits(
    disk_mib: int, puts: bool, publications: bool, operators: bool
) -> None:
    found = at(10, disk_mib)
    assert (not found.why_full, not found.is_cramped, not found.why_operators_wait) == (
        puts,
        publications,
        operators,
    )


def test_refusals_have_numbers() -> None:
    assert at(81, held_mib=2).why_full == (
        f"the store uses {81 * MIB} bytes of its map ({2 * MIB} for a snapshot), and puts stop at "
        f"{80 * MIB}; consume messages, or raise store.map_bytes"
    )
    assert at(10, 5).why_operators_wait == (
        f"the disk has {5 * MIB} bytes free and the store's file 0, and requests that add rows "
        f"stop below {10 * MIB} (store.free_disk_min_bytes)"
    )


def test_turn_does_less_when_fewer_pages_are_free() -> None:
    rows = [at(used_mib).turn_rows for used_mib in (0, 50, 80, 90, 99, 100)]
    assert rows == sorted(rows, reverse=True)
    assert rows[2] == 20 * MIB // PAGE_BYTES // room.TURN_SHARE
    assert rows[-1] == room.ROWS_MIN
    large = Config()
    space = Space(large.store.map_bytes * 9 // 10, large.store.map_bytes, 1 << 40, 0, 0)
    assert room_of(marks_of(large, space.map_bytes), space).turn_rows == large.limits.turn_rows


@pytest.mark.parametrize(
    ("fields", "is_alone"),
    [
        ({}, False),
        ({"priority": 9}, False),
        ({"uid": ("NYC", 5)}, True),
        ({"correlation_id": b"c"}, True),
        ({"expiry_ms": 5}, True),
        ({"delay_ms": 5}, True),
        ({"group": (b"g" * 24, 1, False)}, True),
    ],
)
def test_put_is_sequential_unless_it_has_index_rows(fields: dict[str, Any], is_alone: bool) -> None:
    assert is_in_sequence(record(b"x", **fields)) is not is_alone


# -- a full store, and acks that change as many pages as possible


def full(directory: Path, map_bytes: int, percent: int = 80, **attributes: int) -> Client:
    """Returns a producer that has filled a small store with messages at random positions."""
    store = {"map_bytes": map_bytes, "high_water_percent": percent, "free_disk_min_bytes": 0}
    app = Manager(disk_store(directory, map_bytes), store=store).connect()
    app.ask(m.QueueCreate, "Q", attributes)
    chance, count = random.Random(1), 0
    while True:
        batch = [at_random(chance, number) for number in range(count, count + 40)]
        if app.put_records("Q", *batch):
            return app
        count += 40


def at_random(chance: random.Random, number: int) -> bytes:
    uid = f"O{chance.randrange(300)}", chance.randrange(1 << 50, 1 << 51)
    return record(
        b"x" * 600,
        uid=uid,
        correlation_id=chance.randbytes(20),
        expiry_ms=chance.randrange(10**6, 10**9),
    )


def lease_all(app: Client) -> list[Any]:
    found: list[Any] = []
    while more := app.get("Q", 1_000, lease_ms=86_400_000):
        found += more
    random.Random(2).shuffle(found)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("percent", "retention_ms"), [(80, 0), (95, 60_000)])
def test_full_store_accepts_acks_at_random_places(
    tmp_path: Path, percent: int, retention_ms: int
) -> None:
    app = full(tmp_path, room.MAP_LEAST_BYTES, percent, dedup_retention_ms=retention_ms)
    leased = lease_all(app)
    assert len(leased) > 5_000
    for start in range(0, len(leased), 1_000):
        assert app.ack(*leased[start : start + 1_000]) == []
    app.manager.advance(retention_ms + 1)
    app.manager.rest()
    assert app.put_records("Q", record(b"again")) == []
    app.manager.store.close()


@pytest.mark.long
@pytest.mark.parametrize("how", ["release", "unit", "purge", "delete"])
def test_full_store_accepts_every_other_removal(tmp_path: Path, how: str) -> None:
    app = full(tmp_path, room.MAP_LEAST_BYTES)
    leased, manager = lease_all(app), app.manager
    if how == "release":
        for start in range(0, len(leased), 1_000):
            assert app.release(*leased[start : start + 1_000]) == []
    elif how == "unit":
        for number, start in enumerate(range(0, 1_000, 20), 1):
            unit = UnitOfWork(app, number)
            assert unit.take(*leased[start : start + 20]) == []
            assert unit.commit() == []
    else:
        app.hang_up()
        manager.rest()
    other = manager.connect()
    if how == "delete":
        other.ask(m.QueueDelete, "Q", True)
        other.ask(m.QueueCreate, "Q")
    other.ask(m.QueuePurge, "Q")
    manager.rest()
    assert other.put_records("Q", record(b"again")) == []
    manager.store.close()


@pytest.mark.slow
def test_puts_at_random_places_are_stored_while_pages_are_free(tmp_path: Path) -> None:
    app = full(tmp_path, room.MAP_LEAST_BYTES)
    leased = sorted(lease_all(app), key=lambda found: found.arrival)
    for start in range(0, 5_000, 500):
        app.ack(*leased[start : start + 500])
    batch = [heavy(number, 10) for number in range(1_000)]
    stored, texts = 0, set[str]()
    while batch:
        refused = app.put_records("Q", *batch)
        assert {found.code for found in refused} <= {ErrorCode.STORE_FULL}
        texts |= {found.text for found in refused}
        assert len(refused) < len(batch)
        stored += len(batch) - len(refused)
        batch = batch[len(batch) - len(refused) :]
    assert stored == 1_000
    assert any("too few free pages" in text for text in texts)
    app.manager.store.close()
