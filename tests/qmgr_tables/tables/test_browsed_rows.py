"""Tests that a browsed message has the same row as in a snapshot taken at the same moment."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_tables.option_parser import parse
from qmgr_tables.stream.queue_feed import Page
from qmgr_tables.tables.browsed_rows import rows_of
from qmgr_tables.tables.messages import batch_of
from qmgr_tables.tables.registry import TABLES
from qmgrd.core.layout import keys
from tests.qmgr_tables.snapshots import ENVELOPE, GROUP_ID, LONG, fill_times, flip_last_byte
from tests.qmgr_tables.snapshots import rows as rows_of_snapshot
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.snapshot.shot import Camera, managed

SCHEMA = TABLES["messages"].schema
OF_SNAPSHOTS = ("snapshot_id", "turn")
Rows = list[dict[str, Any]]


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with managed(tmp_path / "store") as found:
        yield found


def browsed(app: Client, queue: str, **asked: str) -> Rows:
    """Returns the rows of a queue in its current state."""
    value = app.ask(
        m.Browse, queue, [0, 0, 0, m.ARRIVAL], 10_000, 1 << 30, "", b"", b"", b"", False, m.ARRIVAL
    )
    assert value["next"] is None
    delays = dict(value["delays"])
    of = parse({"path": "url", **asked})
    found = list(rows_of(Page(value["items"], delays, value["wall_us"]), queue, "QM1", of))
    return batch_of(found, SCHEMA).to_pylist() if found else []


def photographed(manager: Manager, directory: Path, **asked: str) -> dict[str, Rows]:
    """Returns the same rows from a new snapshot, by queue, in the order of arrival."""
    Camera(manager).take(directory)
    found: dict[str, Rows] = {}
    for row in sorted(rows_of_snapshot(directory, None, **asked), key=lambda row: row["arrival"]):
        found.setdefault(row["queue"], []).append(
            {name: None if name in OF_SNAPSHOTS else value for name, value in row.items()}
        )
    return found


def fill(manager: Manager) -> Client:
    """Puts messages of all kinds on ALL, TIMES, FAILS and the dead letter queue."""
    app = manager.connect()
    app.ask(m.QueueCreate, "ALL")
    app.put("ALL", b"plain")
    app.put("ALL", b"full", priority=9, correlation_id=b"N\xc3\xa4\xff", envelope=ENVELOPE)
    app.put("ALL", b"two", group=(GROUP_ID, 2, True), priority=1)
    app.put("ALL", b"one", group=(GROUP_ID, 1, False), delay_ms=10_000)
    app.put("ALL", b"given", uid=("ELSE", 1_600_000_000_123_456), priority=0)
    app.put("ALL", b"far", uid=("ELSE", 2**63 - 1), priority=0)
    app.put("ALL", LONG, correlation_id=b"long", priority=1)
    app.put("ALL", b"", priority=2)
    app.put("ALL", b"long delay", delay_ms=315_360_000_000)
    app.put_records("ALL", *(record(b"%05d" % number) for number in range(200)))
    app.release(*app.get("ALL"))
    app.get("ALL", 3)  # The messages remain leased.
    app.ask(m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "stopped": True})
    app.ask(m.QueueCreate, "FAR@NYC")
    fill_times(app)
    app.ask(m.QueueCreate, "FAILS", {"backout_threshold": 2})
    app.put("FAILS", b"once", b"twice", expiry_ms=90_000)
    for _ in range(2):
        app.release(*app.get("FAILS"))
    app.release(*app.get("FAILS"))
    manager.turn(1_234)
    return app


def test_priority_is_what_was_asked_where_all_have_the_same_rank(
    manager: Manager, tmp_path: Path
) -> None:
    app = manager.connect()
    app.ask(m.Subscribe, "flights/#", "C:all")
    app.ask(m.QueueAlter, "C:all", {"priority_default": 7})
    app.ask(m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "stopped": True})
    app.ask(m.QueueCreate, "FAR@NYC")
    for target in ("/flights/JFK", "FAR@NYC"):
        app.put(target, b"priority of the queue", flags=records.FLAG_PRIORITY_OF_QUEUE)
        app.put(target, b"asked", priority=2)
    expected = photographed(manager, tmp_path / "shot")
    ranks = {queue: [row["priority"] for row in rows] for queue, rows in expected.items()}
    assert ranks == {"C:all": [7, 2], "SYSTEM.PUBLICATIONS": [None, 2], "@NYC": [None, 2]}
    for queue, ranked in ranks.items():
        assert [row["priority"] for row in browsed(app, queue)] == ranked


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"includePayload": "false"},
        {"maxBodyBytes": "5"},
        {"states": "delayed"},
        {"states": "ready"},
        {"since": "2023-11-14T22:13:22Z"},
        {"until": "2023-11-14T22:13:22Z"},
    ],
    ids=str,
)
def test_row_is_that_of_a_snapshot_of_the_same_moment(
    manager: Manager, tmp_path: Path, asked: dict[str, str]
) -> None:
    app = fill(manager)
    expected = photographed(manager, tmp_path / "shot", **asked)
    queues = [row["queue"] for row in app.ask(m.QueueList)["queues"] if row["kind"] == "local"]
    expected.pop("@NYC", None)
    assert {name: found for name in queues if (found := browsed(app, name, **asked))} == expected
    if not asked:
        rows = [row for found in expected.values() for row in found]
        assert {row["state"] for row in rows} == {"ready", "delayed"}
        assert {row["dead_code"] for row in rows} > {None}
        assert {row["persistent"] for row in rows} == {True, False}
        assert any(row["expires_at"] and row["deliver_at"] for row in rows)


def test_damaged_record_has_what_lies_next_to_it(manager: Manager, tmp_path: Path) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"harmed", priority=3, expiry_ms=60_000)
    app.put("Q", b"sound")
    app.put("Q", b"asleep", priority=2, delay_ms=60_000)
    for lane, priority, arrival in ((keys.LANE_READY, 3, 1), (keys.LANE_DELAYED, 2, 3)):
        flip_last_byte(manager, keys.message(1, lane, priority, arrival))
    found = browsed(app, "Q")
    expected = photographed(manager, tmp_path / "shot")["Q"]
    assert [row["state"] for row in expected] == ["damaged", "ready", "damaged"]
    # The persistence is part of the record, which cannot be read.
    assert found == [
        row | {"persistent": row["persistent"] and known}
        for row, known in zip(expected, (None, True, None), strict=True)
    ]
    assert browsed(app, "Q", states="damaged") == found[::2]


def test_of_an_entry_that_makes_no_sense_nothing_is_known(manager: Manager, tmp_path: Path) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"rotten", priority=3)
    tx = manager.store.begin()
    tx.put(keys.message(1, keys.LANE_READY, 3, 1), b"\xff")
    manager.store.commit()
    found = browsed(app, "Q")
    assert found == photographed(manager, tmp_path / "shot")["Q"]
    (row,) = found
    assert (row["state"], row["put_at"], row["delivered"]) == ("damaged", None, None)


def test_expired_message_is_none_any_more(manager: Manager) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"short", expiry_ms=1_000)
    app.put("Q", b"volatile", flags=records.FLAG_NOT_PERSISTENT)
    app.put("Q", b"long")
    manager.advance(1_000)
    assert [row["body"] for row in browsed(app, "Q")] == [b"volatile", b"long"]
    manager.restart()
    assert [row["body"] for row in browsed(manager.connect(), "Q")] == [b"long"]
