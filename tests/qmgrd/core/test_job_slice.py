"""The rows that a job works on in a turn: so many, and each of them once."""

from qmgrd.core import keys
from qmgrd.core.job import SLICE_ROWS, Job, new_row
from qmgrd.core.job_slice import next_rows
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


def test_long_messages_count_for_the_rows_that_they_take(app: Client) -> None:
    app.put("Q", *[bytes(400_000)] * 10)
    context, job = app.manager.turns.broker.context, Job(1, new_row("purge", 0, {}))
    context.tx = app.manager.store.begin()
    prefix = keys.lane(app.manager.queue("Q").id, keys.LANE_READY)
    found, last = next_rows(context, job, prefix)
    app.manager.store.abort()
    assert len(found) == 5
    assert not last
