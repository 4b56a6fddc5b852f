"""Tests that a transfer moves a message with its rows, counters and identity, and leaves no row."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.broker import Broker
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import order
from qmgrd.core.returns import transfer
from qmgrd.core.returns.transfer import Copied, Destination
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, record
from tests.qmgrd.core.unit_of_work import UnitOfWork, bodies, note_of, settle


class Moved(NamedTuple):
    """The result of a transfer."""

    is_taken: bool


def move(app: Client, to: str, note: bytes = b"", expires_ms: int = 0) -> Moved:
    """Moves the first message of Q in a separate turn."""
    done: list[Moved] = []

    def now(broker: Broker) -> None:
        context, source = broker.context, broker.catalogue.local("Q")
        key, value = next(order.behind(source, context.tx, keys.PRIORITY_TOP, 0))
        place = Destination(*broker.catalogue.destination(to))
        taken = transfer.transfer(
            context, source, key, value, place, expires_ms=expires_ms, note=note
        )
        source.counters.moved += taken
        done.append(Moved(taken))

    app.manager.turns.intake.event(0, now)
    app.manager.turn()
    audit(app.manager)
    return done[0]


@pytest.fixture
def to(app: Client) -> str:
    """Returns the name of an empty queue."""
    app.ask(m.QueueCreate, "TO")
    return "TO"


def test_message_is_a_new_arrival_with_its_counts_at_zero(
    store: AnyStore, app: Client, to: str
) -> None:
    app.put("TO", b"there")
    app.put("Q", b"x", priority=7)
    app.release(*app.get("Q"))
    (before,) = app.browse("Q")
    assert move(app, to).is_taken
    app.manager.crash()
    app = app.manager.connect()
    found = app.get("TO", 9)
    assert bodies(found) == [b"x", b"there"]
    assert (found[0].arrival, found[0].delivered, found[0].failed) == (2, 0, 0)
    assert (found[0].uid, found[0].put_us) == (before.uid, before.put_us)
    assert note_of(found[0]) == {}
    assert app.manager.scan(keys.SPACE_NOTE) == []


@pytest.mark.parametrize("size", [1, 9_000])
def test_all_rows_that_lead_to_it_go_along(app: Client, to: str, size: int) -> None:
    app.put("Q", bytes(size), correlation_id=b"c", group=(b"g" * 24, 1, True), expiry_ms=60_000)
    in_due = app.manager.now().ms + 5_000
    assert move(app, to, b"\x80", in_due).is_taken
    for rows in (
        keys.SPACE_CORRELATION,
        keys.SPACE_GROUP,
        keys.SPACE_GROUP_ROW,
        keys.SPACE_CHAIN,
        keys.SPACE_DUE,
        keys.SPACE_NOTE,
    ):
        assert len(app.manager.scan(rows)) == 1
    app.manager.turn(5_000)
    assert app.show("TO")["expired"] == 1
    assert app.manager.scan(keys.SPACE_BODY) == []


def test_consumers_of_the_target_queue_receive_it(app: Client, to: str) -> None:
    other = app.manager.connect("other")
    other.consume("TO")
    app.put("Q", b"x")
    move(app, to)
    app.manager.rest()
    assert bodies(other.delivered()) == [b"x"]


def test_full_queue_takes_nothing_and_nothing_changes(app: Client, to: str) -> None:
    app.ask(m.QueueAlter, "TO", {"depth_max": 1})
    app.put("TO", b"there")
    app.put("Q", b"x", correlation_id=b"c")
    before = app.manager.scan(keys.SPACE_MESSAGE)
    assert not move(app, to).is_taken
    assert app.manager.scan(keys.SPACE_MESSAGE) == before


def test_queue_full_of_bytes_takes_nothing(app: Client, to: str) -> None:
    app.ask(m.QueueAlter, "TO", {"bytes_max": 5_000})
    app.put("Q", bytes(6_000))
    assert not move(app, to).is_taken


def test_existing_message_leaves_the_source(app: Client, to: str) -> None:
    mine = record(bytes(9_000), uid=("B", 1))
    app.put_records("TO", mine)
    app.put_records("Q", mine)
    assert move(app, to).is_taken
    assert len(app.browse("TO")) == 1
    assert app.bodies("Q") == []


def test_message_that_a_unit_is_about_to_put_there_waits(app: Client, to: str) -> None:
    """The unit may be backed out, and then the message would be lost."""
    mine = record(b"x", uid=("B", 1))
    unit = UnitOfWork(app)
    unit.put_records("TO", mine)
    app.put_records("Q", mine)
    assert not move(app, to).is_taken
    unit.backout()
    assert move(app, to).is_taken
    assert app.bodies("TO") == [b"x"]


def test_message_consumed_on_the_target_may_move_there_again(app: Client, to: str) -> None:
    app.ask(m.QueueAlter, "TO", {"dedup_retention_ms": 60_000})
    mine = record(bytes(9_000), uid=("B", 1))
    app.put_records("TO", mine)
    app.ack(*app.get("TO"))
    app.put_records("Q", mine)
    assert move(app, to).is_taken
    assert len(app.bodies("TO")) == 1
    app.manager.turn(60_000)
    (found,) = app.get("TO")
    assert app.ack(found) == []
    assert isinstance(found, Delivery)


def test_move_over_a_link_names_the_remote_queue(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.put("Q", b"x", correlation_id=b"c", delay_ms=1)
    app.manager.turn(1)
    assert move(app, "F@NYC", b"\x81\xa1x\x01").is_taken
    ((_, value),) = app.manager.scan(keys.SPACE_MESSAGE)
    entry = entries.decode(value)
    assert (entry.target, entry.noted, entry.due_ms) == ("F", True, 0)
    assert [x.arrival for x in app.browse("@NYC")] == [1]
    assert app.manager.scan(keys.SPACE_CORRELATION) == []


def test_message_delayed_on_the_target_is_still_a_duplicate(app: Client, to: str) -> None:
    mine = record(b"x", uid=("B", 1))
    app.put_records("TO", mine)
    settle(app, m.RELEASE, *app.get("TO"), delay_ms=60_000)
    app.put_records("Q", mine)
    assert move(app, to).is_taken
    assert app.show("TO")["duplicates"] == 1
    app.manager.turn(60_000)
    assert app.bodies("TO") == [b"x"]


def test_remembered_uid_frees_no_space(app: Client, to: str) -> None:
    app.ask(m.QueueAlter, "TO", {"dedup_retention_ms": 60_000, "depth_max": 1})
    mine = record(b"x", uid=("B", 1))
    app.put_records("TO", mine)
    app.ack(*app.get("TO"))
    app.put("TO", b"there")
    app.put_records("Q", mine)
    assert not move(app, to).is_taken
    assert app.bodies("Q") == [b"x"]


# -- in an open turn


@pytest.fixture
def context(app: Client) -> Iterator[Context]:
    """Yields the context of an open turn, with two messages on Q, and OLD as the target."""
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
    source, place = app.manager.queue("Q"), Destination(app.manager.queue("OLD"))
    bodies = list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY)))
    for key, value in rows(context, app, "Q"):
        assert transfer.transfer(context, source, key, value, place, expires_ms=0, note=b"")
        source.counters.moved += 1
    assert list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY))) == bodies
    assert rows(context, app, "Q") == []
    assert place.queue.counters.depth == 2


def test_copy_has_body_rows_of_its_own(context: Context, app: Client) -> None:
    place = Destination(app.manager.queue("OLD"))
    bodies = len(list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY))))
    for key, value in rows(context, app, "Q"):
        source = app.manager.queue("Q")
        done = transfer.copy(context, source, key, value, place, expires_ms=0, note=b"")
        assert done is Copied.NEW
        again = transfer.copy(context, source, key, value, place, expires_ms=0, note=b"")
        assert again is Copied.DUPLICATE
    assert len(list(context.tx.scan(keys.SPACE_BODY, keys.after(keys.SPACE_BODY)))) == 2 * bodies
    assert place.queue.counters.depth == app.manager.queue("Q").counters.depth == 2


def test_queue_without_room_takes_neither(context: Context, app: Client) -> None:
    source, place = app.manager.queue("Q"), Destination(app.manager.queue("OLD"))
    place.queue.uncommitted.messages = 2
    (key, value), _ = rows(context, app, "Q")
    before = rows(context, app, "Q")
    assert not transfer.transfer(context, source, key, value, place, expires_ms=0, note=b"")
    held = transfer.copy(context, source, key, value, place, expires_ms=0, note=b"")
    place.queue.uncommitted.messages = 0
    assert held is Copied.HELD
    assert rows(context, app, "Q") == before


def test_number_that_had_left_the_old_queue_begins_a_new_group(app: Client, to: str) -> None:
    """The message was in no group on the old queue, so it begins a new group."""
    first = (b"g" * 24, 1, False)
    app.put("Q", b"consumed", group=first)
    app.ack(*app.get("Q"))
    app.put(to, b"again", group=first)
    app.ask(m.QueueMove, *m.QueueMove(0, to, "Q")[1:])
    app.manager.rest()
    assert app.browse("Q")[0].body == b"again"
    app.ask(m.QueueCreate, "THIRD")
    assert move(app, "THIRD").is_taken
    (group,) = app.ask(m.GroupList, "THIRD")["groups"]
    assert (group["next"], group["count"]) == (1, 1)
