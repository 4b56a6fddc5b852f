"""Tests of what a manifest states about links. test_writer.py tests the rest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.snapshot.facts import describe, facts_in
from tests.qmgrd.core.harness import Manager
from tests.qmgrd.snapshot.shot import Camera, managed


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with managed(tmp_path / "qm") as manager:
        yield manager


def test_link_is_reported_with_its_ids(manager: Manager, tmp_path: Path) -> None:
    app = manager.connect()
    app.ask(m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", b"one", b"two")
    manifest = Camera(manager).take(tmp_path / "snap")
    assert manifest["links"] == [{"link": "NYC", "commit_id": 0, "next_id": 3}]
    assert manifest["inboxes"] == []
    assert manifest["record_format"] == records.VERSION
    assert manifest["bytes"] == manager.queue("@NYC").counters.bytes


def test_open_store_is_reported_as_the_file_is(manager: Manager, tmp_path: Path) -> None:
    manager.connect().ask(m.QueueCreate, "Q")
    Camera(manager).take(tmp_path / "snap")
    tx = manager.store.begin()
    here = facts_in(tx)
    manager.store.abort()
    there = describe(tmp_path / "snap" / "data.mdb")
    assert here == there
