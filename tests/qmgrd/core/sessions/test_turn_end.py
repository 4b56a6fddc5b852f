"""Tests of the rows that change with any turn."""

from qmgr_protocol import messages as m
from qmgrd.core.layout import keys
from tests.qmgrd.core.harness import Client


def test_turn_that_changes_nothing_writes_nothing(app: Client) -> None:
    before = dict(app.manager.store.rows)
    app.ask(m.Status)
    assert dict(app.manager.store.rows) == before


def test_turn_that_changes_a_queue_writes_its_counters_and_the_clock(app: Client) -> None:
    app.put("Q", b"1")
    before = dict(app.manager.store.rows)
    app.put("Q", b"2")
    after = app.manager.store.rows
    changed = {key for key in before if before[key] != after.get(key)}
    assert keys.CLOCK in changed
    assert any(key.startswith(keys.SPACE_COUNTERS) for key in changed)
