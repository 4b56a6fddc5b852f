"""Jobs: purge and deletion over many turns, and over a restart."""

from itertools import pairwise

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core import keys
from qmgrd.core.job import SLICE_ROWS
from tests.qmgrd.core.harness import AnyStore, Client, Manager


def fill(app: Client, count: int) -> None:
    for start in range(0, count, 1_000):
        app.put("Q", *[b"x"] * min(1_000, count - start))


def left_of_queue(manager: Manager, queue_id: int) -> int:
    spaces = (keys.SPACE_COUNTERS, keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_ORIGIN)
    return sum(len(manager.scan(keys.of_queue(space, queue_id))) for space in spaces)


# -- purge


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


def test_purge_spares_what_is_leased_and_what_comes_later(app: Client) -> None:
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
    assert app.manager.scan(keys.SPACE_JOB) == []


def test_purge_whose_asker_is_gone_is_done_all_the_same(manager: Manager, app: Client) -> None:
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
    assert app.manager.scan(keys.SPACE_JOB) == []


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


# -- deletion


@pytest.mark.parametrize("clean", [None, True, False])
def test_deleted_queue_leaves_nothing(store: AnyStore, app: Client, clean: bool | None) -> None:
    fill(app, 1_300)
    app.put("Q", bytes(10_000))
    queue_id = app.manager.queue("Q").id
    app.ask(m.QueueDelete, "Q", True)
    assert app.code_of(m.QueueShow, "Q") is ErrorCode.QUEUE_UNKNOWN
    assert left_of_queue(app.manager, queue_id) > 1_300
    if clean is True:
        app.manager.restart()
    elif clean is False:
        app.manager.crash()
    app.manager.rest()
    assert left_of_queue(app.manager, queue_id) == 0
    assert app.manager.scan(keys.SPACE_BODY) == []
    assert app.manager.scan(keys.SPACE_JOB) == []


def test_deletion_takes_slices(app: Client) -> None:
    fill(app, 1_300)
    app.ask(m.QueueDelete, "Q", True)
    sizes = [left_of_queue(app.manager, 1)]
    while sizes[-1]:
        app.manager.turn()
        sizes.append(left_of_queue(app.manager, 1))
    assert max(a - b for a, b in pairwise(sizes)) <= SLICE_ROWS


@pytest.mark.parametrize("kind", [m.QueuePurge, m.QueueDelete])
def test_slices_of_long_messages_are_bounded_too(app: Client, kind: type) -> None:
    """500 messages of 4 MiB are half a million rows: not in one turn."""
    for _ in range(40):
        app.put("Q", bytes(400_000))
    app.send(m.QueuePurge(50, "Q") if kind is m.QueuePurge else m.QueueDelete(50, "Q", True))
    sizes = [len(app.manager.scan(keys.SPACE_BODY))]
    assert sizes[0] > 4_000
    while sizes[-1]:
        app.manager.turn()
        sizes.append(len(app.manager.scan(keys.SPACE_BODY)))
    assert max(a - b for a, b in pairwise(sizes)) <= SLICE_ROWS + 1_050
