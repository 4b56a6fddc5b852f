"""Tests of purges over many turns, across a restart, and with a selector."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.jobs.job import SLICE_ROWS
from qmgrd.core.layout import keys
from tests.qmgrd.core.harness import AnyStore, Client, Manager


def fill(app: Client, count: int) -> None:
    for start in range(0, count, 1_000):
        app.put("Q", *[b"x"] * min(1_000, count - start))


def running(app: Client) -> list[Any]:
    return [row for row in app.ask(m.JobList)["jobs"] if row["ended_us"] is None]


def test_purge_removes_all_in_slices_and_answers_at_its_end(store: AnyStore, app: Client) -> None:
    fill(app, 1_800)
    app.send(m.QueuePurge(50, "Q"))
    depths = []
    while not app.received:
        app.manager.turn()
        depths.append(app.manager.queue("Q").counters.depth)
    assert app.hear() == [m.Ok(50, {"messages": 1_800})]
    assert depths == [1_300, 800, 300, 0]
    row = app.show("Q")
    assert (row["purged"], row["bytes"]) == (1_800, 0)


def test_purge_keeps_leased_and_later_messages(app: Client) -> None:
    fill(app, 1_200)
    (held,) = app.get("Q")
    app.send(m.QueuePurge(50, "Q"))
    app.manager.turn()
    app.put("Q", b"later")
    app.manager.rest()
    assert app.hear() == [m.Ok(50, {"messages": 1_199})]
    app.release(held)
    assert app.bodies("Q") == [b"x", b"later"]


def test_purge_gets_past_more_leases_than_a_slice_holds(app: Client) -> None:
    fill(app, 1_500)
    held = [lease for _ in range(4) for lease in app.get("Q", 256)]
    assert app.ask(m.QueuePurge, "Q") == {"messages": 1_500 - 1_024}
    app.release(*held)
    assert app.show("Q")["ready"] == 1_024


def test_purge_spares_later_ones_of_higher_priority_too(app: Client) -> None:
    app.put("Q", *[b"x"] * 600, priority=5)
    app.send(m.QueuePurge(50, "Q"))
    app.manager.turn()
    app.put("Q", b"high", priority=9)
    app.put("Q", b"low", priority=0)
    app.manager.rest()
    assert app.bodies("Q") == [b"high", b"low"]


def test_purge_goes_on_after_a_crash(store: AnyStore, app: Client) -> None:
    fill(app, 1_200)
    app.send(m.QueuePurge(50, "Q"))
    app.manager.turn()
    app.manager.crash()
    app = app.manager.connect()
    assert app.ask(m.Status)["jobs"] <= 1
    app.manager.rest()
    assert app.show("Q")["depth"] == 0
    assert app.ask(m.Status)["jobs"] == 0
    assert running(app) == []


def test_purge_of_a_lost_connection_is_completed(manager: Manager, app: Client) -> None:
    fill(app, 1_200)
    app.send(m.QueuePurge(50, "Q"))
    manager.turn()
    app.hang_up()
    manager.rest()
    assert manager.connect().show("Q")["depth"] == 0


def test_purge_of_a_queue_that_is_deleted_meanwhile_ends(app: Client) -> None:
    fill(app, 1_200)
    app.send(m.QueuePurge(50, "Q"), m.QueueDelete(51, "Q", True))
    app.manager.rest()
    answers = {x.request_id for x in app.hear()}
    assert answers == {50, 51}
    assert running(app) == []


def test_purge_of_an_empty_queue_answers(app: Client) -> None:
    assert app.ask(m.QueuePurge, "Q") == {"messages": 0}


def test_purge_of_exactly_a_slice(app: Client) -> None:
    fill(app, SLICE_ROWS)
    assert app.ask(m.QueuePurge, "Q") == {"messages": SLICE_ROWS}


def test_two_purges_go_side_by_side(app: Client) -> None:
    fill(app, 1_200)
    app.send(m.QueuePurge(50, "Q"), m.QueuePurge(51, "Q"))
    app.manager.rest()
    counts = [x.value["messages"] for x in app.hear()]
    assert sum(counts) == 1_200


def test_puts_and_gets_go_on_during_a_purge(app: Client) -> None:
    fill(app, 2_000)
    app.send(m.QueuePurge(50, "Q"))
    app.manager.turn()
    (mine,) = app.get("Q")
    assert app.ack(mine) == []
    app.put("Q", b"more")
    app.manager.rest()
    assert app.bodies("Q") == [b"more"]


# -- purges of a part


def test_purge_by_a_selector_keeps_the_rest(app: Client) -> None:
    app.put("Q", b"old", priority=1)
    app.put("Q", b"new", priority=7)
    app.put("Q", bytes(9_000), priority=2)
    assert app.ask(m.QueuePurge, "Q", "priority < 3") == {"messages": 2}
    assert app.bodies("Q") == [b"new"]


def test_purge_with_a_limit_removes_the_next_messages(app: Client) -> None:
    app.put("Q", *(b"%d" % number for number in range(5)))
    assert app.ask(m.QueuePurge, "Q", "", 3) == {"messages": 3}
    assert app.bodies("Q") == [b"3", b"4"]
    (row,) = app.ask(m.JobList)["jobs"]
    assert (row["state"], row["examined"], row["done"], row["total"]) == ("done", 3, 3, 5)


def test_purge_by_an_invalid_selector_is_refused(app: Client) -> None:
    assert app.code_of(m.QueuePurge, "Q", "priority <") is ErrorCode.SELECTOR_INVALID
    assert app.ask(m.JobList) == {"jobs": []}


def test_purge_by_a_selector_leaves_what_rotted(app: Client) -> None:
    app.put("Q", b"sound", b"rotten")
    *_, (key, value) = app.manager.scan(keys.SPACE_MESSAGE)
    tx = app.manager.store.begin()
    tx.put(key, value.replace(b"rotten", b"ratten"))
    app.manager.store.commit()
    assert app.ask(m.QueuePurge, "Q", "size > 0") == {"messages": 1}


def test_cancelled_purge_answers_its_client(app: Client) -> None:
    fill(app, 1_200)
    app.send(m.QueuePurge(50, "Q"))
    app.manager.turn()
    (row,) = running(app)
    other = app.manager.connect()
    other.send(m.JobCancel(7, row["job"]))
    app.manager.turn()
    (answer,) = app.hear()
    assert (answer.request_id, answer.code) == (50, ErrorCode.CANCELLED)
    assert f"job {row['job']} was cancelled after it had removed" in answer.text
    assert 0 < app.show("Q")["depth"] < 1_200
