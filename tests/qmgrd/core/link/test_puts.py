"""Tests of how a link divides messages into puts. test_link.py tests the complete link."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.record import HEAD_BYTES
from qmgrd.core.layout import entry as entries
from qmgrd.core.link import outbox as link_outbox
from qmgrd.core.link.outbox import LinkOutbox
from qmgrd.core.link.puts import EXTRA_BYTES, SendRoom, cut, size_of
from tests.qmgrd.core.harness import Client

ROOMY = SendRoom(7, 1_000, 1 << 20, 1 << 20, 1 << 20)


@pytest.fixture
def outbox(app: Client) -> Iterator[LinkOutbox]:
    """Yields an outbox of three messages for F and two for G at NYC. The fourth message is long."""
    create_link(app)
    app.put("F@NYC", b"1", b"2", b"3")
    app.put("G@NYC", bytes(500), b"5")
    with sending(app) as found:
        yield found


def create_link(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    for queue in ("F@NYC", "G@NYC"):
        app.ask(m.QueueCreate, queue)


@contextmanager
def sending(app: Client) -> Iterator[LinkOutbox]:
    """Opens a transaction in which the outbox of NYC can be read."""
    broker = app.manager.turns.broker
    found = broker.catalogue.links["NYC"].outbox
    broker.context.tx = app.manager.store.begin()
    yield found
    found.queue.flush(broker.context.tx)
    app.manager.store.commit()


def told(puts: Iterator[m.Put]) -> list[tuple[str, int, int]]:
    return [(put.queue, put.first_id, len(put.records)) for put in puts]


def test_put_is_a_run_of_ids_that_are_bound_for_one_queue(outbox: LinkOutbox) -> None:
    assert told(cut(outbox, ROOMY, {})) == [("F", 1, 3), ("G", 4, 2)]
    assert outbox.sent_id == 5
    assert told(cut(outbox, ROOMY, {})) == []


def test_put_is_no_longer_than_a_frame(outbox: LinkOutbox) -> None:
    assert told(cut(outbox, ROOMY._replace(frame_bytes=100), {})) == [
        ("F", 1, 2),
        ("F", 3, 1),
        ("G", 4, 1),
        ("G", 5, 1),
    ]


def test_put_has_no_more_extras_than_the_peer_reads(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(m, "EXTRAS_MAX", 2)
    create_link(app)
    app.put("F@NYC", b"1", b"2", b"3", expiry_ms=10_000)
    with sending(app) as outbox:
        assert [put.extras for put in cut(outbox, ROOMY, {})] == [
            [[0, {"expiry_ms": 10_000}], [1, {"expiry_ms": 10_000}]],
            [[0, {"expiry_ms": 10_000}]],
        ]


def test_records_are_taken_only_up_to_the_space(outbox: LinkOutbox) -> None:
    assert told(cut(outbox, ROOMY._replace(messages=2), {})) == [("F", 1, 2)]
    assert told(cut(outbox, ROOMY._replace(bytes=1), {})) == [("F", 3, 1)]
    assert outbox.sent_id == 3


def test_messages_held_or_in_flight_elsewhere_are_skipped(outbox: LinkOutbox) -> None:
    assert told(cut(outbox, ROOMY._replace(messages=4), {}))
    outbox.hold([2])
    outbox.go_back(0)
    outbox.in_flight = {4}
    assert told(cut(outbox, ROOMY, {})) == [("F", 1, 1), ("F", 3, 1), ("G", 5, 1)]
    assert outbox.sent_id == 5


def test_message_that_is_too_long_for_the_peer_is_passed_over(outbox: LinkOutbox) -> None:
    too_long: dict[int, int] = {}
    room = ROOMY._replace(message_max_bytes=HEAD_BYTES + 499)
    assert told(cut(outbox, room, too_long)) == [("F", 1, 3), ("G", 5, 1)]
    assert too_long == {4: HEAD_BYTES + 500}  # size of the record without its UID
    assert outbox.sent_id == 5


def test_message_that_is_not_sent_is_not_read(
    outbox: LinkOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that accepts nothing could make each turn read a thousand large messages."""
    read: list[object] = []
    monkeypatch.setattr(entries, "record", lambda tx, entry: read.append(entry))
    too_long: dict[int, int] = {}
    assert told(cut(outbox, ROOMY._replace(message_max_bytes=1), too_long)) == []
    assert (sorted(too_long), read) == ([1, 2, 3, 4, 5], [])


def test_expired_message_is_not_read(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create_link(app)
    app.put("F@NYC", b"1", b"2", expiry_ms=10_000)
    read: list[object] = []
    monkeypatch.setattr(entries, "record", lambda tx, entry: read.append(entry))
    monkeypatch.setattr(link_outbox, "is_available", lambda *of: False)
    with sending(app) as outbox:
        (put,) = cut(outbox, ROOMY, {})
    assert (put.records, read) == ([b""] * 2, [])


def test_size_of_a_message_is_the_same_before_and_after_it_is_stamped(outbox: LinkOutbox) -> None:
    too_long: dict[int, int] = {}
    room = ROOMY._replace(message_max_bytes=HEAD_BYTES + 500)
    assert told(cut(outbox, room, too_long)) == [("F", 1, 3), ("G", 4, 2)]
    assert not too_long


def test_notes_count_towards_a_frame() -> None:
    """400 notes of 30 kB made a frame that no peer accepted, and the link repeated it for ever."""
    put = m.Put(1, 1, 0, "F", [b"abc", b"de"], [[1, {m.EXTRA_NOTE: bytes(1_000)}]])
    assert size_of(put) == 5 + 1_000 + EXTRA_BYTES
