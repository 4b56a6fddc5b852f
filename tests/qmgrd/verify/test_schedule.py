"""Tests that any damage to the schedule is found. Rows of a deleted queue are not a fault."""

from pathlib import Path

import lmdb
import pytest

from qmgrd.core.layout import keys
from qmgrd.verify.verify import verify
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.stores import DAY_MS, Change, delete, faults, flip, put
from tests.qmgrd.verify.test_index import LATE

SOON = keys.due(7, LATE, keys.LANE_DELAYED, 7, 5)  # the key of a message that is due later
NOBODY = keys.due(7, LATE, keys.LANE_READY, 4, 99)
GONE = keys.of_queue(keys.SPACE_UID, LATE) + b"GONE"
DUE = keys.SPACE_DUE
DELAYED = keys.message(LATE, keys.LANE_DELAYED, 7, 5)

DAMAGES: list[tuple[str, bytes, Change]] = [
    ("key", DUE + b"x", put(DUE + b"x", b"")),
    ("due-missing", DUE, lambda txn: txn.delete(stores.rows_in(txn, DUE)[-1][0])),
    ("due-missing", DUE, flip(DELAYED, 31)),  # The entry has a different time.
    ("due-orphan", SOON, put(SOON, b"")),
    ("due-orphan", NOBODY, put(NOBODY, b"")),
    ("due-orphan", DUE, delete(GONE)),
    ("remembered", GONE, delete(DUE)),
]


@pytest.mark.parametrize(("fault", "key", "damage"), DAMAGES)
def test_damage_is_found_as_itself_and_once(
    store: Path, fault: str, key: bytes, damage: Change
) -> None:
    stores.check_found(store, fault, key, damage)


def test_time_that_an_entry_does_not_have_is_reported_once(store: Path) -> None:
    def forget(txn: lmdb.Transaction) -> None:
        value = bytes(txn.get(DELAYED) or b"")
        txn.put(DELAYED, value[:24] + bytes(8) + value[32:])

    stores.change(store, forget)
    assert [fault for fault, _ in faults(verify(store))] == ["due-orphan"]


def test_rows_of_a_deleted_queue_are_no_fault(store: Path) -> None:
    stores.change(
        store,
        put(keys.due(DAY_MS, 4, keys.LANE_DELAYED, 4, 1), b""),
        put(keys.due(DAY_MS, 4, keys.LANE_REMEMBERED, 4, 2), b"QM1" + bytes(8)),
    )
    assert verify(store).findings.kept == []
