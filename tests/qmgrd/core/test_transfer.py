"""Taking a message to another queue: by itself, or a copy of it; never there twice."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgrd.core import keys, transfer
from qmgrd.core.context import Context
from qmgrd.core.transfer import Copied, Place
from tests.qmgrd.core.harness import Client


@pytest.fixture
def context(app: Client) -> Iterator[Context]:
    """The context of an open turn, with two messages on Q, and OLD to take them."""
    app.ask(m.QueueCreate, "OLD", {"depth_max": 2})
    app.put("Q", b"short", bytes(9_000))
    context: Context = app.manager.turns.broker.context
    context.tx = app.manager.store.begin()
    yield context
    app.manager.turns.broker.end()
    app.manager.store.commit()


def rows(context: Context, app: Client, queue: str) -> list[tuple[bytes, bytes]]:
    prefix = keys.lane(app.manager.queue(queue).id, keys.LANE_READY)
    return list(context.tx.scan(prefix, keys.after(prefix)))


def test_message_that_is_moved_takes_its_body_rows_along(context: Context, app: Client) -> None:
    source, place = app.manager.queue("Q"), Place(app.manager.queue("OLD"))
    bodies = list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY)))
    for key, value in rows(context, app, "Q"):
        assert transfer.transfer(context, source, key, value, place, expires_ms=0, note=b"")
        source.counters.moved += 1
    assert list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY))) == bodies
    assert rows(context, app, "Q") == []
    assert place.queue.counters.depth == 2


def test_copy_has_body_rows_of_its_own(context: Context, app: Client) -> None:
    place = Place(app.manager.queue("OLD"))
    bodies = len(list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY))))
    for key, value in rows(context, app, "Q"):
        done = transfer.copy(context, key, value, place, expires_ms=0, note=b"")
        assert done is Copied.NEW
        again = transfer.copy(context, key, value, place, expires_ms=0, note=b"")
        assert again is Copied.DUPLICATE
    assert len(list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY)))) == 2 * bodies
    assert place.queue.counters.depth == app.manager.queue("Q").counters.depth == 2


def test_queue_without_room_takes_neither(context: Context, app: Client) -> None:
    source, place = app.manager.queue("Q"), Place(app.manager.queue("OLD"))
    place.queue.held_messages = 2
    (key, value), _ = rows(context, app, "Q")
    before = rows(context, app, "Q")
    assert not transfer.transfer(context, source, key, value, place, expires_ms=0, note=b"")
    held = transfer.copy(context, key, value, place, expires_ms=0, note=b"")
    place.queue.held_messages = 0
    assert held is Copied.HELD
    assert rows(context, app, "Q") == before
