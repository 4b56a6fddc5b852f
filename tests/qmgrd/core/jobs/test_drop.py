"""Tests that the rows of a deleted queue are removed over many turns, even after a restart."""

from itertools import pairwise
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.jobs.job import SLICE_ROWS
from qmgrd.core.layout import keys
from tests.qmgrd.core.harness import AnyStore, Client, Manager


def fill(app: Client, count: int) -> None:
    for start in range(0, count, 1_000):
        app.put("Q", *[b"x"] * min(1_000, count - start))


def running(manager: Manager) -> list[Any]:
    rows = manager.connect().ask(m.JobList)["jobs"]
    return [row for row in rows if row["ended_us"] is None]


def left_of_queue(manager: Manager, queue_id: int) -> int:
    spaces = (keys.SPACE_COUNTERS, keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_ORIGIN)
    return sum(len(manager.scan(keys.of_queue(space, queue_id))) for space in spaces)


@pytest.mark.parametrize("clean", [None, True, False])
def test_deleted_queue_leaves_nothing(store: AnyStore, app: Client, clean: bool | None) -> None:
    fill(app, 1_300)
    app.put("Q", bytes(10_000))
    queue_id = app.manager.queue("Q").id
    app.ask(m.QueueDelete, "Q", True)
    assert app.code_of(m.QueueShow, "Q") is ErrorCode.QUEUE_UNKNOWN
    assert left_of_queue(app.manager, queue_id) > 650
    if clean is True:
        app.manager.restart()
    elif clean is False:
        app.manager.crash()
    app.manager.rest()
    assert left_of_queue(app.manager, queue_id) == 0
    assert app.manager.scan(keys.SPACE_BODY) == []
    assert running(app.manager) == []


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
    """500 messages of 4 MiB have half a million rows, which is more than one turn may delete."""
    for _ in range(40):
        app.put("Q", bytes(400_000))
    app.send(m.QueuePurge(50, "Q") if kind is m.QueuePurge else m.QueueDelete(50, "Q", True))
    sizes = [len(app.manager.scan(keys.SPACE_BODY))]
    assert sizes[0] > 4_000
    while sizes[-1]:
        app.manager.turn()
        sizes.append(len(app.manager.scan(keys.SPACE_BODY)))
    assert max(a - b for a, b in pairwise(sizes)) <= SLICE_ROWS + 1_050
