"""Tests of dead letters: their queues and notes, and that no message is lost or duplicated."""

from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import FLAG_NOT_PERSISTENT
from qmgrd.core.layout import keys
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.harness import WALL_US, AnyStore, Client, Delivery, Manager, record
from tests.qmgrd.core.unit_of_work import bodies, note_of, settle

DEAD = "SYSTEM.DEAD.LETTERS"


def alter(app: Client, queue: str = "Q", **changes: object) -> None:
    app.ask(m.QueueAlter, queue, changes)


def reject(app: Client, *found: Delivery, **fields: Any) -> None:
    assert settle(app, m.REJECT, *found, **fields) == []


def test_note_has_all_known_facts(store: AnyStore, app: Client) -> None:
    worker = app.manager.connect("worker")
    app.put("Q", b"x", expiry_ms=60_000)
    settle(worker, m.RELEASE, *worker.get("Q"), reason="busy", text="try later")
    app.manager.turn(20_000)
    reject(worker, *worker.get("Q"), reason="malformed", text="no airport")
    app.manager.restart(5_000)
    (dead,) = app.manager.connect().get(DEAD)
    failed_us, dead_us = WALL_US, WALL_US + 20_000_000
    assert note_of(dead) == {
        "code": ErrorCode.MESSAGE_REJECTED,
        "reason": "malformed",
        "text": "no airport",
        "queue": "Q",
        "manager": "QM1",
        "us": dead_us,
        "failed": 2,
        "delivered": 2,
        "left_ms": 40_000,
        "attempts": [
            [failed_us, 0, "busy", "try later", "worker"],
            [dead_us, ErrorCode.MESSAGE_REJECTED, "malformed", "no airport", "worker"],
        ],
    }


def test_dead_letter_expires_no_more(app: Client) -> None:
    app.put("Q", b"x", expiry_ms=60_000)
    reject(app, *app.get("Q"))
    (dead,) = app.browse(DEAD)
    assert not dead.state & m.STATE_EXPIRES
    app.manager.turn(10_000_000)
    assert app.bodies(DEAD) == [b"x"]


def test_cap_of_the_queue_of_dead_letters_does_not_end_them(app: Client) -> None:
    alter(app, DEAD, expiry_max_ms=1_000)
    app.put("Q", b"x")
    reject(app, *app.get("Q"))
    app.manager.turn(10_000)
    assert app.bodies(DEAD) == [b"x"]


def test_time_left_is_kept_by_a_dead_letter_that_fails_once_more(app: Client) -> None:
    app.ask(m.QueueCreate, "BACKOUT", {"backout_threshold": 1})
    alter(app, backout_queue="BACKOUT")
    app.put("Q", b"x", expiry_ms=60_000)
    reject(app, *app.get("Q"))
    app.manager.turn(50_000)
    app.release(*app.get("BACKOUT"))
    (dead,) = app.browse(DEAD)
    note = note_of(dead)
    assert (note["left_ms"], note["queue"], len(note["attempts"])) == (60_000, "BACKOUT", 2)


def test_message_without_an_end_has_no_time_left(app: Client) -> None:
    app.put("Q", b"x")
    reject(app, *app.get("Q"))
    (dead,) = app.browse(DEAD)
    assert "left_ms" not in note_of(dead)


def test_expired_message_has_no_time_left(app: Client) -> None:
    alter(app, expiry_action="dead-letter")
    app.put("Q", b"x", expiry_ms=1_000)
    app.manager.turn(1_000)
    (dead,) = app.browse(DEAD)
    note = note_of(dead)
    assert note["code"] == ErrorCode.MESSAGE_EXPIRED
    assert "left_ms" not in note
    assert "attempts" not in note


def test_message_expired_during_a_lease_keeps_its_attempts(app: Client) -> None:
    """The simulator found this bug with seed 8385: the note was deleted with the schedule row."""
    alter(app, expiry_action="dead-letter")
    app.put("Q", b"x", expiry_ms=5_000)
    app.release(*app.get("Q"))
    (held,) = app.get("Q", lease_ms=20_000)
    for _ in range(4):  # The message has expired, and a check by the sweep has no effect.
        app.manager.turn(3_000)
        app.manager.rest()
    app.settle(m.UNREAD, held)
    app.manager.turn(1_000)
    app.manager.rest()
    (dead,) = app.browse(DEAD)
    assert len(note_of(dead)["attempts"]) == 1


@pytest.mark.parametrize("size", [4_000, 40_000, 4_000_000])
def test_long_message_moves_without_its_body_being_copied(
    store: AnyStore, app: Client, size: int
) -> None:
    app.put("Q", bytes(size))
    before = app.manager.scan(keys.SPACE_BODY)
    app.release(*app.get("Q"))
    reject(app, *app.get("Q"))
    assert app.manager.scan(keys.SPACE_BODY) == before
    assert app.show("Q")["bytes"] == 0
    audit(app.manager)
    app.manager.crash()
    app = app.manager.connect()
    (dead,) = app.get(DEAD)
    assert dead.body == bytes(size)
    assert app.ack(dead) == []
    app.manager.rest()
    assert app.manager.scan(keys.SPACE_BODY) == app.manager.scan(keys.SPACE_NOTE) == []


def test_identity_moves_with_the_message(app: Client) -> None:
    """The UID leaves the old queue and is in use on the new one, together with its index rows."""
    mine = record(b"x", uid=("B", 5), correlation_id=b"c", group=(b"g" * 24, 1, True))
    assert not app.put_records("Q", mine)
    reject(app, *app.get("Q"))
    app.manager.rest()
    for selected in (("", b"c"), ("", b"", b"g" * 24), ("", b"", b"", b"B" + bytes(7) + b"\5")):
        (item,) = app.ask(m.Browse, DEAD, None, 9, 1_000, *selected)["items"]
        assert item.find(b"x")
        assert app.ask(m.Browse, "Q", None, 9, 1_000, *selected)["items"] == []
    assert not app.put_records("Q", mine)
    assert app.show(DEAD)["origins"]["B"] == 5


def test_existing_dead_letter_is_not_stored_twice(app: Client) -> None:
    mine = record(bytes(9_000), uid=("B", 5))
    for _ in range(2):
        assert not app.put_records("Q", mine)
        reject(app, *app.get("Q"))
    shown = app.show(DEAD)
    assert (shown["depth"], shown["duplicates"]) == (1, 1)
    assert app.show("Q")["dead"] == 2


def test_message_that_was_dead_once_and_dies_again_is_not_lost(app: Client) -> None:
    """BACKOUT remembers the UID of the consumed message, but still accepts the new dead letter."""
    alter(app, backout_queue="BACKOUT")
    app.ask(m.QueueCreate, "BACKOUT", {"dedup_retention_ms": 60_000})
    mine = record(bytes(9_000), uid=("B", 5), correlation_id=b"c")
    for _ in range(2):
        assert not app.put_records("Q", mine)
        reject(app, *app.get("Q"))
        audit(app.manager)
        (dead,) = app.get("BACKOUT")
        assert app.ack(dead) == []
    assert [x.code for x in app.put_records("BACKOUT", mine)] == [ErrorCode.DUPLICATE_MESSAGE]
    app.manager.turn(60_000)
    assert not app.put_records("BACKOUT", mine)


def test_uid_that_was_remembered_is_not_forgotten_while_its_message_lives(app: Client) -> None:
    alter(app, backout_queue="BACKOUT")
    app.ask(m.QueueCreate, "BACKOUT", {"dedup_retention_ms": 60_000})
    mine = record(b"x", uid=("B", 5))
    for _ in range(2):
        assert not app.put_records("Q", mine)
        reject(app, *app.get("Q"))
        if not app.show("BACKOUT")["acked"]:
            app.ack(*app.get("BACKOUT"))
    app.manager.turn(60_000)
    assert [x.code for x in app.put_records("BACKOUT", mine)] == [ErrorCode.DUPLICATE_MESSAGE]
    assert app.bodies("BACKOUT") == [b"x"]


def test_backout_queue_may_be_remote(store: AnyStore, app: Client) -> None:
    app.ask(m.LinkCreate, "HUB", {"addresses": ["hub:1"], "stopped": True})
    app.ask(m.QueueCreate, "BACKOUT@HUB")
    alter(app, backout_queue="BACKOUT@HUB")
    app.put("Q", b"x", bytes(9_000), priority=7, delay_ms=10, expiry_ms=60_000)
    app.manager.turn(10)
    reject(app, *app.get("Q", 2), reason="why")
    app.manager.crash()
    app = app.manager.connect()
    sent = app.browse("@HUB")
    assert [(x.arrival, x.body) for x in sent] == [(1, b"x"), (2, bytes(9_000))]
    assert [note_of(x)["reason"] for x in sent] == ["why", "why"]
    assert app.show("Q")["dead"] == 2


def test_event_names_the_configured_backout_queue(app: Client) -> None:
    app.ask(m.QueueCreate, "BACKOUT")
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": "BACKOUT"})
    alter(app, backout_queue="ALIAS")
    app.put("Q", b"x")
    reject(app, *app.get("Q"))
    assert app.bodies("BACKOUT") == [b"x"]
    (event,) = app.bodies("SYSTEM.EVENTS")
    for word in (b"message dead-lettered", b"ALIAS", b"MESSAGE_REJECTED"):
        assert word in event


def test_full_backout_queue_that_makes_room_sends_its_oldest_on(app: Client) -> None:
    app.ask(m.QueueCreate, "BACKOUT", {"depth_max": 1, "overflow": "dead-letter-oldest"})
    alter(app, backout_queue="BACKOUT")
    app.put("Q", b"1", b"2", b"3")
    reject(app, *app.get("Q", 3))
    assert app.bodies("BACKOUT") == [b"3"]
    dead = app.browse(DEAD)
    assert bodies(dead) == [b"1", b"2"]
    assert [note_of(x)["code"] for x in dead] == [ErrorCode.QUEUE_FULL] * 2
    assert [note_of(x)["queue"] for x in dead] == ["BACKOUT"] * 2


def test_message_lost_in_a_restart_is_no_dead_letter(app: Client) -> None:
    """The message has expired and was lost, so a dead letter would bring it back."""
    alter(app, expiry_action="dead-letter")
    app.put("Q", b"x", bytes(9_000), expiry_ms=1_000, flags=FLAG_NOT_PERSISTENT)
    manager = app.manager
    manager.crash(10_000)
    manager.rest()
    app = manager.connect()
    assert app.bodies(DEAD) == []
    shown = app.show("Q")
    assert (shown["lost"], shown["dead"], shown["expired"]) == (2, 0, 0)


def test_entry_that_rotted_makes_room_and_is_set_aside() -> None:
    """Operators read all of a dead-letter queue, where a damaged message would be unreadable."""
    app = Manager().connect()
    app.ask(m.QueueCreate, "Q", {"depth_max": 1, "overflow": "dead-letter-oldest"})
    app.put("Q", b"x")
    ((key, value),) = app.manager.scan(keys.SPACE_MESSAGE)
    app.manager.store.begin().put(key, b"\xff" + value[1:])
    app.manager.store.commit()
    app.put("Q", b"y")
    assert app.bodies("Q") == [b"y"]
    shown = app.show("Q")
    assert (shown["damaged"], shown["dead"]) == (1, 0)
    assert app.show(DEAD)["depth"] == 0


def test_hundreds_are_rejected_at_once(store: AnyStore, app: Client) -> None:
    app.put("Q", *[b"%d" % number for number in range(250)])
    reject(app, *app.get("Q", 250), reason="r" * m.REASON_MAX, text="t" * m.REASON_TEXT_MAX)
    found = app.browse(DEAD)
    assert [int(x.body) for x in found] == list(range(250))
    assert unpack(found[-1].tail)["text"] == "t" * m.REASON_TEXT_MAX


FRAME_BYTES = 20_000


@pytest.mark.parametrize(
    "way",
    [{}, {"correlation_id": b"c"}, {"group_id": b"g" * 24}, {"where": "correlation_id = 'c'"}],
)
@pytest.mark.parametrize("kind", ["consume", "get", "browse"])
def test_long_notes_count_towards_a_frame(
    app: Client, monkeypatch: pytest.MonkeyPatch, kind: str, way: dict[str, Any]
) -> None:
    """A page of dead letters fits into a frame that a client accepts, even with long notes."""
    for module in ("queue.lease", "limits.unread_replies", "queue.browse"):
        monkeypatch.setattr(f"qmgrd.core.{module}.DELIVER_MAX_BYTES", FRAME_BYTES)
    app.manager.turns.broker.context.unread_replies.set_room(1 << 40)
    count = 30
    app.put_records(
        "Q",
        *[
            record(
                b"%d" % number,
                priority=number % 2 * 9,
                correlation_id=b"c",
                group=(b"g" * 24, number, number == count),
            )
            for number in range(1, count + 1)
        ],
    )
    reject(app, *app.get("Q", count), text="\u6f22" * m.REASON_TEXT_MAX)
    app.manager.rest()
    pages = list(pages_of(app, kind, way))
    sizes = [sum(len(item) for item in page) for page in pages]
    assert sum(len(page) for page in pages) == count
    assert max(sizes) <= FRAME_BYTES + 1_000
    assert min(sizes[:-1]) > FRAME_BYTES // 2


def pages_of(app: Client, kind: str, way: dict[str, Any]) -> Iterator[list[bytes]]:
    """Yields the items of each frame of dead letters."""
    if kind == "browse":
        after: list[int] | None = []
        while after is not None:
            page = app.ask(m.Browse, *m.Browse(0, DEAD, after or None, 10_000, 1 << 20, **way)[1:])
            after = page["next"]
            yield page["items"]
        return
    if kind == "consume":
        app.ask(m.Consume, *m.Consume(0, DEAD, 100, 1 << 30, 0, **way)[1:])
    while True:
        if kind == "get":
            app.send(m.Get(app.next_id(), DEAD, 100, 0, 0, 1 << 30, **way))
        app.manager.turn()
        app.manager.rest()
        found = [message.items for message in app.hear() if type(message) is m.Deliver]
        if not found:
            return
        yield from found


def test_copy_that_came_back_in_a_loop_gives_way_to_the_message_itself(app: Client) -> None:
    """A peer may invent such a copy, and the message would otherwise return for ever."""
    app.put("Q", b"genuine")
    ((found,), far) = app.get("Q"), Far(app.manager)
    far.open()
    forged, note = record(b"forged", uid=found.uid), pack({"hops": ["QM1"]})
    far.client.say(m.Put(far.stream, 1, 0, "/t", [forged], [[0, {m.EXTRA_NOTE: note}]]))
    assert app.bodies(DEAD) == [b"forged"]
    reject(app, found)
    assert (app.bodies(DEAD), app.bodies("Q")) == ([b"genuine"], [])
    audit(app.manager)
