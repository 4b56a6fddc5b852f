"""Tests that a restart removes non-persistent messages in slices, and no other messages."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.record import FLAG_NOT_PERSISTENT
from qmgrd.core.layout import keys
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, record
from tests.qmgrd.core.jobs.test_due_work import run_due_work


def test_non_persistent_messages_are_swept_over_many_turns(store: AnyStore, app: Client) -> None:
    app.put("Q", *[b"kept"] * 300)
    for _ in range(2):
        app.put("Q", *[b"lost"] * 700, flags=FLAG_NOT_PERSISTENT)
    manager = app.manager
    manager.restart()
    slices = manager.rest()
    assert slices >= 3
    app = manager.connect()
    assert app.bodies("Q") == [b"kept"] * 300
    (row,) = [row for row in app.ask(m.JobList)["jobs"] if row["kind"] == "sweep"]
    assert (row["state"], row["done"], row["queue"]) == ("done", 1_400, "Q")
    assert len(manager.scan(keys.SPACE_MESSAGE)) == 300


def test_sweep_of_a_queue_that_is_deleted_meanwhile_ends(app: Client) -> None:
    app.put("Q", *[b"lost"] * 900, flags=FLAG_NOT_PERSISTENT)
    manager = app.manager
    manager.restart()
    app = manager.connect()
    app.ask(m.QueueDelete, "Q", True)
    manager.rest()
    assert {row["state"] for row in app.ask(m.JobList)["jobs"]} == {"done"}
    assert manager.scan(keys.SPACE_MESSAGE) == []


def test_lost_members_are_skipped_and_ungrouped_messages_delivered(app: Client) -> None:
    """The lost messages did not leave the group for good, so the group begins again."""
    app.put("Q", b"lost", flags=FLAG_NOT_PERSISTENT, group=(b"g" * 24, 1, False))
    app.put("Q", b"free")
    manager = app.manager
    manager.crash()
    app = manager.connect()
    app.send(m.Get(app.next_id(), "Q", 9, 0, order=m.LOGICAL))
    manager.rest()
    assert [x.body for x in app.delivered()] == [b"free"]
    assert manager.queue("Q").counters.grouped == 0
    app.put("Q", b"anew", group=(b"g" * 24, 1, True))
    app.send(m.Get(app.next_id(), "Q", 9, 0, order=m.LOGICAL))
    manager.rest()
    assert [x.body for x in app.delivered()] == [b"anew"]


def test_state_of_a_group_survives_the_next_crash(app: Client) -> None:
    for number, flags in ((1, 0), (2, FLAG_NOT_PERSISTENT), (3, 0)):
        app.put("Q", b"%d" % number, flags=flags, group=(b"g" * 24, number, number == 3))
    manager = app.manager
    for _ in range(2):
        manager.crash()
        manager.rest()
    assert manager.queue("Q").counters.grouped == 2
    app = manager.connect()
    (row,) = app.ask(m.GroupList, "Q")["groups"]
    assert (row["count"], row["missing"], row["state"]) == (2, 1, "gap")
    audit(manager)


@pytest.mark.parametrize("crashes", [1, 2])
def test_group_with_lost_members_is_incomplete_before_the_sweep(app: Client, crashes: int) -> None:
    """Otherwise, a reader of complete groups would begin the group and wait for lost messages."""
    groups, manager = [b"%024d" % x for x in range(800)], app.manager
    lost = FLAG_NOT_PERSISTENT
    for number, flags in ((1, 0), (2, lost)):
        for start in range(0, len(groups), 400):
            part = groups[start : start + 400]
            app.put_records(
                "Q", *[record(b"x", flags=flags, group=(x, number, number == 2)) for x in part]
            )
    app.put("Q", b"whole", group=(b"w" * 24, 1, True))
    for _ in range(crashes):
        manager.crash()
    app = manager.connect()
    page = app.ask(m.Browse, *m.Browse(0, "Q", order=m.LOGICAL, all_available=True)[1:])
    assert (page["items"], page["next"]) == ([], None)
    app.send(m.Get(app.next_id(), "Q", 9, 60_000, order=m.LOGICAL, all_available=True))
    manager.rest()
    assert [x.body for x in app.delivered()] == [b"whole"]


def test_what_is_lost_of_a_group_that_expires_is_counted_once(app: Client) -> None:
    """The job of the group waited for a lease, and is the first to continue after the restart."""
    app.ask(m.QueueAlter, "Q", {"group_incomplete_ms": 1_000})
    app.put("Q", b"A2", flags=FLAG_NOT_PERSISTENT, group=(b"A" * 24, 2, False))
    assert len(app.get("Q")) == 1
    run_due_work(app.manager, 1_000)
    app.manager.crash()
    app.manager.rest()
    shown = app.manager.connect().show("Q")
    assert (shown["lost"], shown["expired"], shown["depth"]) == (1, 0, 0)
    audit(app.manager)
