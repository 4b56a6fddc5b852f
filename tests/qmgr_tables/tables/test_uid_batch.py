"""Tests of UIDs in bulk. Each column of each row matches the stored bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_tables.tables.registry import TABLES
from qmgr_tables.tables.uid_batch import Uids, batch
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import QueueInfo, StoredSnapshot
from qmgrd.store.lmdb_store import LmdbStore
from tests.qmgrd.snapshot.shot import MAP_BYTES

SHOT = StoredSnapshot(
    "/s", "s", "QM1", 7, 4096, "", (), clock_ms=1_000, wall_us=1_700_000_000_000_000
)
QUEUE = QueueInfo("Q", 1, "local", ())
UIDS = st.lists(st.tuples(st.sampled_from(["", "A", "AB", "Ä"]), st.integers(0, 2**64 - 1)))
PLACE = keys.POSITION.pack(keys.LANE_READY, 5, 3)


@pytest.fixture(scope="module")
def tx(tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = LmdbStore(tmp_path_factory.mktemp("uids"), MAP_BYTES)
    yield store.begin()
    store.abort()
    store.close()


def made(tx: Any, found: Uids) -> list[dict[str, Any]]:
    schema = TABLES["duplicates"].schema
    out = batch(tx, found, SHOT, schema)
    out.validate(full=True)
    assert out.schema.equals(schema)
    rows: list[dict[str, Any]] = out.to_pylist()
    return rows


@given(uids=UIDS)
def test_each_uid_is_shown(tx: Any, uids: list[tuple[str, int]]) -> None:
    encoded = [origin.encode() + stamp.to_bytes(8, "big") for origin, stamp in uids]
    rows = made(tx, Uids(QUEUE, False, encoded, [PLACE] * len(uids)))
    assert [row["message_id"] for row in rows] == [f"{origin}.{stamp}" for origin, stamp in uids]
    assert [row["timestamp"] for row in rows] == [
        stamp if stamp < 2**63 else None for _, stamp in uids
    ]
    assert all((row["priority"], row["arrival"], row["highest"]) == (4, 3, None) for row in rows)
    assert all(
        (row["created_at"] is None) == (stamp >= 253_402_300_800_000_000)
        for row, (_, stamp) in zip(rows, uids, strict=True)
    )


def test_targets_stand_before_origins(tx: Any) -> None:
    uid = b"\x03FARQM1" + (9).to_bytes(8, "big")
    (row,) = made(tx, Uids(QUEUE, True, [uid], [PLACE]))
    assert (row["target"], row["origin"], row["message_id"]) == ("FAR", "QM1", "QM1.9")


def test_place_that_is_damaged_is_reported(tx: Any) -> None:
    uids = [b"A" + stamp.to_bytes(8, "big") for stamp in (1, 2)]
    first, second = made(tx, Uids(QUEUE, False, uids, [b"\x00", PLACE]))
    assert (first["arrival"], first["damage"]) == (None, "the index row has an invalid position")
    assert (second["arrival"], second["damage"]) == (3, None)


def test_until_is_reported_by_the_wall_clock_where_that_holds_it(tx: Any) -> None:
    uids = [b"A" + stamp.to_bytes(8, "big") for stamp in (1, 2)]
    soon, never = made(tx, Uids(QUEUE, False, uids, [PLACE] * 2, [2_000, 2**52]))
    assert soon["until"].timestamp() == 1_700_000_001
    assert (never["until"], never["state"]) == (None, "remembered")


def test_nothing_is_an_empty_batch(tx: Any) -> None:
    assert made(tx, Uids(QUEUE, False, [], [])) == []
