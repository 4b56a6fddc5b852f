"""Tests that a job processes a limited number of rows per turn, and each row once."""

from qmgrd.core.jobs.job import SLICE_ROWS, Job, new_row
from qmgrd.core.jobs.slice import next_rows, selector_of
from qmgrd.core.layout import keys
from tests.qmgrd.core.harness import Client


def test_slices_have_each_row_once_in_order(app: Client) -> None:
    app.put("Q", *[b"x"] * (2 * SLICE_ROWS))
    context, job = app.manager.turns.broker.context, Job(1, new_row("purge", 0, {}))
    context.tx = app.manager.store.begin()
    prefix = keys.lane(app.manager.queue("Q").id, keys.LANE_READY)
    slices = [next_rows(context, job, prefix) for _ in range(3)]
    app.manager.store.abort()
    found = [key for rows, _ in slices for key, _ in rows]
    assert [len(rows) for rows, _ in slices] == [SLICE_ROWS, SLICE_ROWS, 0]
    assert slices[-1][1]
    assert len(set(found)) == 2 * SLICE_ROWS
    assert found == sorted(found)


def test_slices_are_smaller_where_the_selector_takes_long(app: Client) -> None:
    app.put("Q", *[b"x"] * 9, envelope={"headers": {"g": "a" * 4_000}})
    context, job = app.manager.turns.broker.context, Job(1, new_row("purge", 0, {}))
    queue = app.manager.queue("Q")
    job.row["where"] = " OR ".join(["h LIKE '%" + "_" * 250 + "b%'"] * 14)
    context.tx = app.manager.store.begin()
    assert context.rows == 0
    prefix, selector = keys.lane(queue.id, keys.LANE_READY), selector_of(context, job, queue)
    compiled_rows = context.rows
    slices = [next_rows(context, job, prefix, selector) for _ in range(9)]
    app.manager.store.abort()
    assert compiled_rows > 400
    assert [len(rows) for rows, _ in slices] == [1] * 9
    assert [last for _, last in slices] == [False] * 8 + [True]
    assert context.rows > 9 * 500
    assert selector_of(context, job, queue) is selector


def test_job_that_waits_has_one_row(app: Client) -> None:
    app.put("Q", *[b"x"] * 3)
    context, job = app.manager.turns.broker.context, Job(1, new_row("move", 0, {}))
    job.row["state"] = "waiting"
    context.tx = app.manager.store.begin()
    prefix = keys.lane(app.manager.queue("Q").id, keys.LANE_READY)
    slices = [next_rows(context, job, prefix) for _ in range(4)]
    app.manager.store.abort()
    assert [(len(rows), last) for rows, last in slices] == [
        (1, False),
        (1, False),
        (1, True),
        (0, True),
    ]


def test_long_messages_count_for_the_rows_that_they_take(app: Client) -> None:
    app.put("Q", *[bytes(400_000)] * 10)
    context, job = app.manager.turns.broker.context, Job(1, new_row("purge", 0, {}))
    context.tx = app.manager.store.begin()
    prefix = keys.lane(app.manager.queue("Q").id, keys.LANE_READY)
    found, last = next_rows(context, job, prefix)
    app.manager.store.abort()
    assert len(found) == 5
    assert not last
