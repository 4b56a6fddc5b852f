"""Tests of qmctl aside against a real daemon."""

import pytest

from qmgr_protocol.codec import pack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.disk_stores import disk_store
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process
KEYS = {"number", "kind", "key", "what", "why", "set_aside", "bytes"}


@pytest.fixture
def damaged(own_daemon: Daemon, qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch) -> Qmctl:
    """A function that runs qmctl against a daemon with two invalid definitions."""
    own_daemon.program.stop()
    store = disk_store(own_daemon.data_dir, 1 << 30)
    tx = store.begin()
    for topic in (b"a", b"b"):
        rows.put(tx, keys.SPACE_TOPIC + topic, pack({"republish": 7}))
    store.commit()
    store.close()
    own_daemon.start()
    monkeypatch.setenv("QMCTL_CONNECT", own_daemon.unix)
    return qmctl


def test_items_are_listed_retried_and_dropped(damaged: Qmctl) -> None:
    found = damaged("aside", "ls", "-o", "json").json
    assert [(row["number"], row["what"]) for row in found] == [
        (1, "the definition of topic a"),
        (2, "the definition of topic b"),
    ]
    assert set(found[0]) == KEYS
    said = damaged("aside", "ls", "--help").out
    assert [key for key in KEYS if key not in said] == []
    header, *_ = damaged("aside", "ls").out.splitlines()
    assert header.split("\t") == ["NUMBER", "KIND", "SET ASIDE", "WHAT", "WHY"]
    assert damaged("aside", "retry", "1").out == (
        "retried item 1, the definition of topic a: read at the next start\n"
    )
    assert damaged("aside", "delete", "2", "--yes").out == (
        "deleted item 2, the definition of topic b\n"
    )
    assert damaged("aside", "ls", "-o", "json").json == []


def test_unknown_item_is_reported(damaged: Qmctl) -> None:
    ended = damaged("aside", "delete", "9", "--yes")
    assert (ended.code, "no item with this number is set aside" in ended.err) == (3, True)
    assert "ASIDE_UNKNOWN" in damaged("aside", "retry", "9").err
