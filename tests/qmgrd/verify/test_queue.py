"""Tests that any damage to a message, its position, its body or its index rows is found."""

from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack
from qmgrd.core.layout import keys
from qmgrd.core.layout.counters import Counters
from qmgrd.verify.verify import verify
from tests.qmgrd.core.harness import record
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.shot import managed
from tests.qmgrd.snapshot.stores import (
    LONG_KEY,
    ORIGIN,
    OUTBOX,
    UID,
    Change,
    delete,
    edit,
    faults,
    flip,
    put,
    put_sealed,
    ready,
)

BODY = keys.SPACE_BODY


def counted(queue_id: int = 1, **changed: int) -> Change:
    def new(row: bytes) -> bytes:
        counters = Counters.decode(row)
        for name, value in changed.items():
            setattr(counters, name, getattr(counters, name) + value)
        return counters.encode()

    return edit(keys.of_queue(keys.SPACE_COUNTERS, queue_id), new)


def copied(source: bytes, key: bytes) -> Change:
    return lambda txn: txn.put(key, bytes(txn.get(source) or b""))


LATER_KEY = keys.message(1, 0, 4, 4)

DAMAGES: list[tuple[str, bytes, Change]] = [
    ("key", ready() + b"\x05", put(ready() + b"\x05", b"")),
    ("stray", keys.of_queue(UID, 66), put(keys.of_queue(UID, 66) + b"QM1" + bytes(8), b"")),
    ("depth", keys.of_queue(keys.SPACE_COUNTERS, 1), counted(depth=1, puts=1, fast=1)),
    ("depth", keys.of_queue(keys.SPACE_COUNTERS, 5), counted(5, delayed=1, depth=-1)),
    ("depth", keys.of_queue(keys.SPACE_COUNTERS, 6), counted(6, grouped=1)),
    ("volatile", keys.of_queue(keys.SPACE_COUNTERS, 1), counted(volatile=1)),
    ("volatile", keys.of_queue(keys.SPACE_COUNTERS, 5), counted(5, volatile_from=1)),
    ("sums", keys.of_queue(keys.SPACE_COUNTERS, 5), counted(5, lost=1)),
    ("bytes", keys.of_queue(keys.SPACE_COUNTERS, 1), counted(bytes=1)),
    ("sums", keys.of_queue(keys.SPACE_COUNTERS, 1), counted(fast=1)),
    ("arrival", keys.of_queue(keys.SPACE_COUNTERS, 1), counted(next_arrival=-1)),
    ("entry", keys.message(1, 0, 4, 3), put(keys.message(1, 0, 4, 3), b"")),
    ("record", keys.message(1, 0, 4, 3), flip(ready(), -20)),
    ("record", LONG_KEY, flip(BODY, 2_000)),
    ("pieces", LONG_KEY, delete(BODY)),
    ("pieces-orphan", BODY + b"\x99" * 8, put(keys.body(0x9999999999999999, 0), b"x")),
    ("index-missing", keys.of_queue(UID, 1) + b"ELSE", delete(UID)),
    ("index-wrong", keys.of_queue(UID, 1) + b"ELSE", flip(UID)),
    ("index-orphan", keys.of_queue(UID, 1), put(keys.of_queue(UID, 1) + bytes(9), bytes(10))),
    ("index-order", LATER_KEY, copied(keys.message(1, 0, 0, 2), LATER_KEY)),
    ("unindexed", keys.of_queue(keys.SPACE_COUNTERS, 1), counted(unindexed=1)),
    ("origin", keys.of_queue(ORIGIN, 1) + b"ELSE", delete(ORIGIN)),
    ("origin", keys.of_queue(ORIGIN, 1) + b"ELSE", edit(ORIGIN, lambda row: bytes(8))),
    ("window", OUTBOX, put_sealed(OUTBOX, pack([1, None]))),
    ("window", OUTBOX, put_sealed(OUTBOX, pack([99, None]))),
]


@pytest.mark.parametrize(("fault", "key", "damage"), DAMAGES)
def test_damage_is_found_as_itself_and_once(
    store: Path, fault: str, key: bytes, damage: Change
) -> None:
    stores.check_found(store, fault, key, damage)


def test_non_persistent_message_counts_until_a_restart(tmp_path: Path) -> None:
    flags = records.FLAG_NOT_PERSISTENT
    with managed(tmp_path) as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put("Q", b"kept", b"kept", delay_ms=stores.DAY_MS)
        app.put_records("Q", *(record(b"", flags=flags) for _ in range(3_000)))
        app.put("Q", b"later", flags=flags, delay_ms=stores.DAY_MS)
        manager.rest()
    assert (verify(tmp_path).findings.kept, verify(tmp_path).messages) == ([], 3_003)
    with managed(tmp_path) as manager:
        pass
    # The job exists, but has not counted any rows yet.
    assert verify(tmp_path).findings.kept == []
    with managed(tmp_path) as manager:
        manager.turn()
        assert len(manager.scan(keys.of_queue(keys.SPACE_MESSAGE, 1))) > 2_000
    assert (verify(tmp_path).findings.kept, verify(tmp_path).messages) == ([], 2)


def test_message_may_not_have_the_body_of_another(store: Path) -> None:
    other = keys.message(1, keys.LANE_READY, 4, 8)
    stores.change(store, lambda txn: txn.put(other, txn.get(LONG_KEY) or b""))
    found = dict.fromkeys(faults(verify(store)))
    assert ("pieces-shared", other) in found
    assert "pieces-orphan" in {fault for fault, _ in found}


def test_index_may_not_name_a_message_of_another_uid(store: Path) -> None:
    row = keys.of_queue(UID, 1) + b"A" + bytes(8)
    stores.change(store, put(row, keys.message(1, 0, 4, 3)[5:]))
    assert faults(verify(store)) == [("index-orphan", row)]
