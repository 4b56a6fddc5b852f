"""Tests that idle groups are checked when their bounds change, and are removed in portions."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.jobs import group_watch
from qmgrd.core.jobs.group_end import NO_PLACE_MS
from qmgrd.core.jobs.group_watch import FULL_MS
from tests.qmgrd.core.harness import AnyStore, Client, record
from tests.qmgrd.core.jobs.test_due_work import run_due_work

DEAD = "SYSTEM.DEAD.LETTERS"


def put(app: Client, *groups: int, number: int = 2, is_last: bool = False) -> None:
    batch = [record(b"%d" % x, group=(b"%024d" % x, number, is_last)) for x in groups]
    assert app.put_records("Q", *batch) == []


def kinds(app: Client, state: str) -> list[str]:
    jobs: list[dict[str, Any]] = app.ask(m.JobList)["jobs"]
    return [row["kind"] for row in jobs if row["state"] == state]


def known(app: Client) -> int:
    return len(app.ask(m.GroupList, "Q", b"", 1_000, False)["groups"])


@pytest.mark.parametrize("by_template", [False, True])
def test_later_bound_applies_to_pending_messages(app: Client, by_template: bool) -> None:
    put(app, *range(400))
    bounds = {"group_incomplete_ms": 1_000}
    if by_template:
        app.ask(m.TemplateSet, "Q*", bounds)
    else:
        app.ask(m.QueueAlter, "Q", bounds)
    app.manager.rest()
    run_due_work(app.manager, 1_000)
    app.manager.rest()
    assert app.show("Q")["depth"] == 0


def test_lowered_bound_applies_to_consumed_groups(app: Client) -> None:
    put(app, 1, number=1)
    app.ack(*app.get("Q"))
    assert known(app) == 1
    app.ask(m.QueueAlter, "Q", {"group_retention_ms": 1_000})
    app.manager.rest()
    run_due_work(app.manager, 1_000)
    assert known(app) == 0


def test_limited_number_of_groups_leave_at_once_and_others_follow_after_a_restart(
    store: AnyStore, app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_watch, "ENDING_MAX", 3)
    app.manager.fill(DEAD, record(b"full"))
    app.ask(m.QueueAlter, DEAD, {"depth_max": 1})
    app.ask(m.QueueAlter, "Q", {"group_incomplete_ms": 1_000, "expiry_action": "dead-letter"})
    put(app, *range(10))
    for _ in range(3):
        run_due_work(app.manager, 1_000)
        assert kinds(app, "waiting") == ["group", "group", "group", "watch"]
    app.manager.crash()
    app = app.manager.connect()
    app.ask(m.QueueAlter, DEAD, {"depth_max": 100})
    for _ in range(5):
        run_due_work(app.manager, max(NO_PLACE_MS, FULL_MS))
    assert (app.show("Q")["depth"], app.show(DEAD)["depth"]) == (0, 11)
    assert kinds(app, "waiting") == []


def test_groups_that_leave_are_no_jobs_of_operators(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmgrd.core.jobs.jobs.RUNNING_MAX", 1)
    app.manager.fill(DEAD, record(b"full"))
    app.ask(m.QueueAlter, DEAD, {"depth_max": 1})
    app.ask(m.QueueAlter, "Q", {"group_incomplete_ms": 1_000, "expiry_action": "dead-letter"})
    put(app, 1, 2)
    run_due_work(app.manager, 1_000)
    assert kinds(app, "waiting") == ["group", "group"]
    assert app.ask(m.QueuePurge, "Q")


def test_queue_that_is_deleted_meanwhile_ends_it(app: Client) -> None:
    put(app, *range(400))
    app.send(m.QueueAlter(app.next_id(), "Q", {"group_incomplete_ms": 1_000}))
    app.send(m.QueueDelete(app.next_id(), "Q", True))
    app.manager.rest()
    assert kinds(app, "running") == []
