"""G19: Tests that dead letters have a header, and return unchanged to their original queues."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.system import DEAD_LETTERS
from qmgrd.core.jobs import retry
from qmgrd.core.queue import notes
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, Manager


@pytest.fixture
def app(manager: Manager) -> Client:
    client = manager.connect("app")
    client.ask(m.QueueCreate, "Q")
    return client


def reject(app: Client, *bodies: bytes, queue: str = "Q", **fields: Any) -> None:
    """Turns messages into dead letters."""
    app.put(queue, *bodies, **fields)
    reject_again(app, queue)


def reject_again(app: Client, queue: str = "Q") -> None:
    for delivery in app.get(queue, 100):
        settle = m.Settle(app.next_id(), m.REJECT, delivery.queue_id, delivery.handle)
        app.say(settle._replace(reason="bad", text="no amount"))


def sent_back(app: Client, queue: str = DEAD_LETTERS, retries_max: int = 3) -> dict[str, Any]:
    job = app.ask(m.QueueMove, queue, "", "", 0, 0, False, retries_max)["job"]
    app.manager.rest()
    row: dict[str, Any] = app.ask(m.JobShow, job)
    return row


def note_of(delivery: Delivery) -> notes.Note:
    tail = delivery.tail
    return notes.decode(tail[m.REMAINING.size :] if delivery.state & m.STATE_EXPIRES else tail)


def test_dead_letter_goes_back_as_it_was_but_for_its_history(store: AnyStore, app: Client) -> None:
    """G19: The header describes the failure, and the retry restores the message."""
    app.ask(m.QueueAlter, "Q", {"backout_threshold": 2})
    app.put("Q", b"x", bytes(9_000), correlation_id=b"c", priority=7)
    before = [x.record for x in app.browse("Q")]
    for _ in range(2):
        app.release(*app.get("Q", 2))
    assert app.bodies("Q") == []
    dead = app.browse(DEAD_LETTERS)
    note = note_of(dead[0])
    assert (note["queue"], note["failed"], len(note["attempts"])) == ("Q", 2, 2)
    assert note["code"] == ErrorCode.BACKOUT_THRESHOLD_REACHED
    row = sent_back(app)
    assert (row["kind"], row["state"], row["done"], row["target"]) == ("retry", "done", 2, "")
    back = app.browse("Q")
    assert [x.record for x in back] == before
    assert [(x.delivered, x.failed) for x in back] == [(0, 0), (0, 0)]
    note = note_of(back[0])
    assert set(note) == {"attempts", "retries"}
    assert (note["retries"], len(note["attempts"])) == (1, 2)
    assert app.show(DEAD_LETTERS)["moved"] == 2


def test_retries_are_counted_until_it_was_often_enough(app: Client) -> None:
    reject(app, b"x")
    for count in (1, 2, 3):
        assert sent_back(app)["done"] == 1
        assert note_of(app.browse("Q")[0])["retries"] == count
        reject_again(app)
    row = sent_back(app)
    assert (row["done"], row["stayed"]) == (0, 1)
    assert row["text"] == "1 stayed: already retried 3 times (--max-retries)"
    assert note_of(app.browse(DEAD_LETTERS)[0])["retries"] == 3
    assert sent_back(app, retries_max=4)["done"] == 1


def test_time_that_was_left_is_restored(app: Client) -> None:
    """G19: A returned message has its remaining lifetime again. A dead letter does not expire."""
    reject(app, b"x", expiry_ms=10_000)
    app.manager.turn(60_000)
    assert app.bodies(DEAD_LETTERS) == [b"x"]
    sent_back(app)
    (back,) = app.browse("Q")
    (left_ms,) = m.REMAINING.unpack_from(back.tail)
    assert 9_000 < left_ms <= 10_000
    app.manager.turn(left_ms + 1)
    assert app.bodies("Q") == []


def test_expired_messages_are_dead_letters_only_by_policy(app: Client) -> None:
    """G19: By default, an expired message is deleted."""
    app.ask(m.QueueCreate, "KEEPS", {"expiry_action": "dead-letter"})
    for queue in ("Q", "KEEPS"):
        app.put(queue, queue.encode(), expiry_ms=1_000)
    app.manager.turn(2_000)
    app.manager.rest()
    assert app.bodies(DEAD_LETTERS) == [b"KEEPS"]
    assert sent_back(app)["done"] == 1
    app.manager.turn(60_000)
    # The lifetime is over, but the message returns and stays.
    assert app.bodies("KEEPS") == [b"KEEPS"]


def test_backout_queue_sends_back_each_to_its_own(app: Client) -> None:
    app.ask(m.QueueCreate, "BAD")
    for queue in ("A", "B"):
        app.ask(m.QueueCreate, queue, {"backout_queue": "BAD"})
        reject(app, queue.encode(), queue=queue)
    app.put("BAD", b"put by hand")
    row = sent_back(app, "BAD")
    assert (row["done"], row["stayed"], row["text"]) == (2, 1, "1 stayed: not a dead letter")
    assert (app.bodies("A"), app.bodies("B"), app.bodies("BAD")) == (
        [b"A"],
        [b"B"],
        [b"put by hand"],
    )


def test_dead_letter_of_a_deleted_queue_stays(app: Client) -> None:
    app.ask(m.QueueCreate, "GONE")
    reject(app, b"x", queue="GONE")
    app.ask(m.QueueDelete, "GONE", True)
    row = sent_back(app)
    assert (row["state"], row["stayed"]) == ("done", 1)
    assert row["text"] == "1 stayed: queue GONE does not exist here"


def test_dead_letter_reports_an_alias_without_a_target(app: Client) -> None:
    reject(app, b"x")
    app.ask(m.QueueDelete, "Q", True)
    app.ask(m.QueueCreate, "Q", {"alias_of": "NONE"})
    text = "1 stayed: Q is an alias of queue NONE, which does not exist here"
    assert sent_back(app)["text"] == text


def test_note_without_an_origin_has_no_target() -> None:
    assert notes.original_queue({"queue": "Q", "manager": "M"}, "M") == "Q"
    assert notes.original_queue({"queue": "Q", "manager": "M"}, "N") == "Q@M"
    assert (
        notes.original_queue({"queue": "Q"}, "M")
        == notes.original_queue({"manager": 1, "queue": "Q"}, "M")
        == ""
    )
    assert retry.missing("") == "the original queue is unknown"


def test_queue_that_takes_nothing_now_is_waited_for(app: Client) -> None:
    reject(app, b"x")
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    row = sent_back(app)
    assert (row["state"], row["done"]) == ("waiting", 0)
    app.ask(m.QueueAlter, "Q", {"put_inhibit": False})
    app.manager.turn(1_000)
    assert app.bodies("Q") == [b"x"]


def test_named_target_takes_the_place_of_the_origin(app: Client) -> None:
    app.ask(m.QueueCreate, "NEW")
    reject(app, b"x", expiry_ms=10_000)
    app.ask(m.QueueMove, DEAD_LETTERS, "NEW", "", 0, 0, False, 3)
    app.manager.rest()
    (found,) = app.browse("NEW")
    assert note_of(found)["retries"] == 1
    assert "code" not in note_of(found)
    assert found.state & m.STATE_EXPIRES


def test_facts_of_dead_letters_select_those_that_go_back(app: Client) -> None:
    app.ask(m.QueueCreate, "OTHER")
    reject(app, b"x")
    reject(app, b"y", queue="OTHER")
    where = "dead_queue = 'OTHER' AND dead_reason = 'bad' AND dead_retries = 0"
    app.ask(m.QueueMove, DEAD_LETTERS, "", where)
    app.manager.rest()
    assert (app.bodies(DEAD_LETTERS), app.bodies("OTHER")) == ([b"x"], [b"y"])


def test_message_of_another_queue_manager_goes_back_over_its_link(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    reject(app, b"x", b"y")
    _as_if_from(app.manager, "NYC")
    assert sent_back(app)["stayed"] == 2  # The queue Q@NYC does not exist yet.
    app.ask(m.QueueCreate, "Q@NYC")
    assert sent_back(app)["done"] == 2
    found = app.browse("@NYC")
    assert [x.body for x in found] == [b"x", b"y"]
    assert note_of(found[0])["retries"] == 1


def _as_if_from(manager: Manager, name: str) -> None:
    """Changes all dead letters, as if they came from the queue manager *name*."""
    queue = manager.queue(DEAD_LETTERS)
    tx = manager.store.begin()
    for arrival in range(1, queue.counters.next_arrival):
        note = notes.read(tx, queue.id, arrival)
        notes.write(tx, queue.id, arrival, notes.encode(note | {"manager": name}))
    manager.store.commit()


@pytest.mark.parametrize("note", [{}, {"retries": "x"}, {"retries": -1}, {"retries": True}])
def test_invalid_note_counts_no_retries(note: notes.Note) -> None:
    assert notes.retries(note) == 0
    assert retry.note_after(note) == {"retries": 1}


@pytest.mark.parametrize(
    ("left", "expected"), [(None, 0), (-1, 0), ("x", 0), (0, 101), (50, 150), (2**63, 2**63)]
)
def test_time_that_is_left_is_held_to_what_can_be(left: Any, expected: int) -> None:
    assert retry.expires_ms({"left_ms": left}, 100) == expected
