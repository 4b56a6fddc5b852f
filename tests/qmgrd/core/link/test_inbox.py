"""Tests of the receiving end of a link, one turn at a time (docs/behaviour.md, B)."""

import json

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.window import Inbox
from qmgrd.core.catalogue.system import DEAD_LETTERS, EVENTS
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.link import inbox as link_inbox
from qmgrd.core.link.inbox import LinkInbox
from tests.memory_store import MemoryStore
from tests.qmgrd.core.far import FAR_STORE, STREAM, Far, message
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record


@pytest.fixture
def far(app: Client) -> Far:
    far = Far(app.manager)
    assert far.open() == [0, [], None, 4096]
    return far


def test_message_is_to_be_had_before_any_commit_B6(app: Client, far: Far) -> None:
    assert far.send(1, message(1)) == []
    assert [x.body for x in app.get("Q")] == [b"1"]
    assert far.committed() == [1]


def test_commit_is_the_end_of_the_consecutive_run_B4(app: Client, far: Far) -> None:
    far.send(1, message(1), message(2))
    far.send(4, message(4), message(5))
    assert far.committed() == [2]
    far.send(3, message(3))
    assert far.committed() == [5]
    assert app.bodies("Q") == [b"1", b"2", b"4", b"5", b"3"]


def test_gap_hides_nothing_B7(app: Client, far: Far) -> None:
    far.send(3, message(3))
    assert app.bodies("Q") == [b"3"]


def test_ids_above_a_gap_are_reported_with_the_commit_id(app: Client, far: Far) -> None:
    far.send(1, message(1))
    far.send(3, message(3), message(4))
    far.send(6, message(6))
    app.manager.turn(app.manager.config.link.commit_interval_ms)
    assert far.client.hear() == [m.Committed(1, 1, held=[[3, 2], [6, 1]], taken=4)]
    far.send(2, message(2))
    app.manager.turn(app.manager.config.link.commit_interval_ms)
    assert far.client.hear() == [m.Committed(1, 4, held=[[6, 1]], taken=5)]
    assert far.committed() == []


def test_commit_that_is_asked_for_comes_new_or_not_B10(app: Client, far: Far) -> None:
    far.client.send(m.CommitAsk(1))
    assert [x for x in far.client.say() if type(x) is m.Committed] == [m.Committed(1, 0)]
    far.send(1, message(1))
    assert far.client.say(m.CommitAsk(1)) == [m.Committed(1, 1, taken=1)]
    assert far.client.say(m.CommitAsk(1), m.CommitAsk(1)) == [m.Committed(1, 1, taken=1)]
    assert far.committed() == []


def test_commit_of_a_closed_stream_cannot_be_requested(app: Client, far: Far) -> None:
    far.client.say(m.CommitAsk(2))
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.STREAM_UNKNOWN


def test_commits_are_occasional_B8() -> None:
    """With N = 1,000 and k = 50, the peer sends 20 commits."""
    manager = Manager(link={"commit_messages": 50, "commit_interval_ms": "1 min"})
    manager.connect().ask(m.QueueCreate, "Q")
    far = Far(manager)
    far.open()
    heard = [x for i in range(1, 1_001) for x in far.send(i, message(i))]
    assert [x.commit_id for x in heard] == list(range(50, 1_001, 50))


def test_commit_is_reported_once_after_the_interval(app: Client, far: Far) -> None:
    far.send(1, message(1))
    app.manager.turn(49)
    assert far.client.hear() == []
    app.manager.turn(1)
    assert far.client.hear() == [m.Committed(far.stream, 1, taken=1)]
    assert far.committed() == []


@pytest.mark.parametrize("clean", [True, False])
def test_stream_goes_on_where_it_was_after_a_restart(
    store: AnyStore, app: Client, far: Far, clean: bool
) -> None:
    far.send(1, message(1), message(2))
    far.send(5, message(5))
    if clean:
        app.manager.restart()
    else:
        app.manager.crash()
    assert Far(app.manager).open() == [2, [5], b"FAR" + (5).to_bytes(8, "big"), 4096]


def test_consumed_message_that_is_sent_again_does_not_come_twice_B14(
    store: AnyStore, app: Client, far: Far
) -> None:
    far.send(1, message(1), message(2))
    app.ack(*app.get("Q", 2))
    app.manager.crash()
    again = Far(app.manager)
    again.open()
    again.send(1, message(1), message(2), message(3))
    app = app.manager.connect()
    assert app.bodies("Q") == [b"3"]
    assert again.committed() == [3]
    assert app.ask(m.LinkList)["inbound"][0]["duplicates"] == 2


def test_message_that_came_another_way_counts_as_stored(app: Client, far: Far) -> None:
    app.put_records("Q", message(1))
    far.send(1, message(1), message(2))
    assert app.bodies("Q") == [b"1", b"2"]
    assert far.committed() == [2]


# -- messages that cannot be stored


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        ("NONE", ErrorCode.QUEUE_UNKNOWN),
        ("@FAR", ErrorCode.QUEUE_IS_TRANSMISSION),
        ("R@FAR", ErrorCode.QUEUE_IS_REMOTE),
        ("a/b", ErrorCode.NAME_INVALID),
    ],
)
def test_queue_that_accepts_no_message_blocks_the_link(
    app: Client, far: Far, queue: str, code: ErrorCode
) -> None:
    app.ask(m.LinkCreate, "FAR", {"addresses": ["h:1"]})
    app.ask(m.QueueCreate, "R@FAR")
    (blocked,) = far.send(1, message(1), queue=queue)
    assert (type(blocked), blocked.seq_id, blocked.code) == (m.Blocked, 1, code)
    assert blocked.retry_after_ms == 10_000
    assert far.committed() == []


def test_full_queue_blocks_at_the_first_that_does_not_fit_B19(app: Client, far: Far) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 2})
    (blocked,) = far.send(1, *(message(i) for i in range(1, 5)), queue="SMALL")
    assert (blocked.seq_id, blocked.code) == (3, ErrorCode.QUEUE_FULL)
    assert blocked.retry_after_ms == 1_000
    assert far.committed() == [2]
    app.ack(*app.get("SMALL", 2))
    far.send(3, message(3), message(4), queue="SMALL")
    assert far.committed() == [4]
    assert app.bodies("SMALL") == [b"3", b"4"]


@pytest.mark.parametrize(
    ("overflow", "dead"), [("discard-oldest", []), ("dead-letter-oldest", [b"1", b"2"])]
)
def test_full_queue_that_makes_room_does_so_for_a_link(
    app: Client, far: Far, overflow: str, dead: list[bytes]
) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 2, "overflow": overflow})
    far.send(1, message(1), message(2), queue="SMALL")
    again = [message(seq_id) for seq_id in range(1, 5)]
    # Two messages are stored already and need no space.
    assert far.send(1, *again, queue="SMALL") == []
    assert far.committed() == [4]
    assert app.bodies("SMALL") == [b"3", b"4"]
    assert app.bodies(DEAD_LETTERS) == dead


def test_id_past_the_window_makes_no_room(app: Client, far: Far) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1, "overflow": "discard-oldest"})
    app.put("SMALL", b"kept")
    far.send(4_097, message(1), queue="SMALL")
    assert far.client.goaway is not None
    assert app.bodies("SMALL") == [b"kept"]


def test_queue_filled_by_a_link_is_reported_once(app: Client, far: Far) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    for _ in range(3):
        far.send(1, message(1), message(2), queue="SMALL")
    told = [json.loads(body)["event"] for body in app.bodies(EVENTS)]
    assert sorted(told) == ["link blocked", "queue full"]


def test_inhibited_queue_blocks_until_that_is_lifted(app: Client, far: Far) -> None:
    far.send(1, message(1))
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    (blocked,) = far.send(1, message(1), message(2), message(3))
    assert (blocked.seq_id, blocked.code) == (2, ErrorCode.PUT_INHIBITED)
    assert blocked.retry_after_ms == 1_000
    assert "puts are inhibited on queue Q" in blocked.text
    assert far.committed() == [1]
    app.ask(m.QueueAlter, "Q", {"put_inhibit": False})
    assert far.send(2, message(2), message(3)) == []
    assert far.committed() == [3]
    assert app.bodies("Q") == [b"1", b"2", b"3"]


def test_full_store_blocks_the_link(app: Client, far: Far) -> None:
    app.manager.store.disk_free_bytes = 0
    (blocked,) = far.send(1, message(1))
    assert (blocked.seq_id, blocked.code) == (1, ErrorCode.STORE_FULL)
    (blocked,) = far.send(1, message(1), queue="NONE")  # This refusal is not counted for any queue.
    assert (blocked.seq_id, blocked.code) == (1, ErrorCode.QUEUE_UNKNOWN)


def test_link_creates_no_messages(app: Client, far: Far) -> None:
    (blocked,) = far.send(1, record(b"no UID"))
    assert blocked.code == ErrorCode.RECORD_MALFORMED


def test_blocked_names_the_first_that_is_missing(app: Client, far: Far) -> None:
    far.send(1, message(1))
    (blocked,) = far.send(1, message(1), message(2), queue="NONE")
    assert blocked.seq_id == 2


def test_id_past_the_window_breaks_the_protocol(app: Client, far: Far) -> None:
    far.send(4_097, message(1))
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.WINDOW_EXCEEDED
    assert app.bodies("Q") == []


# -- the sender's identity


def test_newest_connection_of_a_stream_fences_the_older(app: Client, far: Far) -> None:
    far.send(1, message(1))
    newer = Far(app.manager)
    assert newer.open()[0] == 1
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.LINK_FENCED
    newer.send(2, message(2))
    assert newer.committed() == [2]


def test_due_commit_is_reported_on_the_newer_connection(app: Client, far: Far) -> None:
    """The new connection opens in the turn of the last put. The commit must reach the sender."""
    newer = Far(app.manager)
    app.manager.turn()
    far.client.send(m.Put(far.stream, 1, 0, "Q", [message(1)]))
    newer.client.send(m.LinkOpen(50, STREAM, 1, 100))
    app.manager.turn()
    (opened,) = newer.client.hear()
    newer.stream = opened.value[0]
    newer.send(2, message(2))
    assert newer.committed() == [2]


def test_name_is_bound_to_its_store_at_the_first_contact(
    store: AnyStore, app: Client, far: Far
) -> None:
    app.manager.crash()
    other = Far(app.manager, store_id=b"G" * 16)
    code = other.client.code_of(m.LinkOpen, b"G" * 16 + STREAM[16:], 1, 1)
    assert code is ErrorCode.PEER_STORE_CHANGED


def test_peer_whose_store_was_created_again_is_accepted_once_it_was_disallowed(
    store: AnyStore, app: Client, far: Far
) -> None:
    far.send(1, message(1))
    assert app.ask(m.LinkDisallow, "FAR") == {"connections": 1, "inbound": "any"}
    assert app.code_of(m.LinkDisallow, "FAR") is ErrorCode.LINK_UNKNOWN
    app.manager.crash()
    other = Far(app.manager, store_id=b"G" * 16)
    assert other.open(b"G" * 16 + STREAM[16:])[0] == 0


def test_stream_that_begins_later_begins_at_its_first_id(store: AnyStore, app: Client) -> None:
    far = Far(app.manager)
    value = far.client.ask(m.LinkOpen, STREAM, 501, 600)
    assert value[1:4] == [500, [], None]
    far.stream = value[0]
    far.send(501, message(501))
    assert far.committed() == [501]


def test_ids_of_missing_messages_leave_no_gap(store: AnyStore, app: Client, far: Far) -> None:
    far.send(1, message(1))
    far.send(4, message(4))
    assert far.send(2, b"", b"", queue="") == []
    assert far.committed() == [4]
    assert app.bodies("Q") == [b"1", b"4"]
    far.send(5, b"", queue="")
    app.manager.crash()
    assert Far(app.manager).open()[:3] == [5, [], None]


def test_existing_messages_reported_as_gone_break_the_protocol(app: Client, far: Far) -> None:
    far.send(1, message(1), queue="")
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.FIELD_INVALID


def test_gone_messages_are_checked_against_the_window(app: Client, far: Far) -> None:
    far.send(2, *[b""] * 4_096, queue="")
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.WINDOW_EXCEEDED


def test_stream_of_another_store_breaks_the_protocol(app: Client) -> None:
    other = Far(app.manager, store_id=b"G" * 16)
    other.client.say(m.LinkOpen(1, STREAM, 1, 1))
    assert other.client.goaway is not None
    assert other.client.goaway.code == ErrorCode.FIELD_INVALID


def test_streams_are_apart_B24(app: Client, far: Far) -> None:
    """Two sources use the same ids. If a source creates a queue again, its stream is new (B20)."""
    other = Far(app.manager, "OTHER", b"O" * 16)
    other.open(b"O" * 16 + STREAM[16:])
    far.send(1, message(1))
    other.send(1, record(b"other", uid=("OTHER", 1)))
    anew = Far(app.manager)
    assert anew.open(FAR_STORE + (2).to_bytes(8, "big"))[0] == 0
    assert app.bodies("Q") == [b"1", b"other"]


def test_inbound_links_are_listed_up_to_a_limit_and_counted(
    app: Client, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmgrd.core.requests.links.SHOWN_MAX", 1)
    far.client.ask(m.LinkOpen, FAR_STORE + (2).to_bytes(8, "big"), 1, 1)
    found = app.ask(m.LinkList)
    assert (len(found["inbound"]), found["inbound_count"]) == (1, 2)


def test_inbound_links_are_listed_once(app: Client, far: Far) -> None:
    far.client.ask(m.LinkOpen, FAR_STORE + (2).to_bytes(8, "big"), 1, 1)
    inbound = app.ask(m.LinkList)["inbound"]
    assert [(x["peer"], x["stream"][-1]) for x in inbound] == [("FAR", "1"), ("FAR", "2")]


# -- the row


def test_row_is_read_as_it_was_written() -> None:
    tx = MemoryStore()
    stream = LinkInbox(STREAM, "FAR", Inbox(10, 4, {6, 8}), 8, b"h")
    rows.put(tx, stream.key, stream.encode())
    assert link_inbox.load(tx, STREAM, 10) == stream
    stream.lost, stream.lost_us = 3, 1_700_000_000_000_000
    rows.put(tx, stream.key, stream.encode())
    assert link_inbox.load(tx, STREAM, 10) == stream
    assert link_inbox.load(tx, STREAM[:-1] + b"x", 10) is None


def test_row_of_a_newer_version_is_read_as_far_as_known() -> None:
    tx = MemoryStore()
    rows.put(
        tx, keys.SPACE_LINK_INBOX + STREAM, pack(["FAR", 4, [[6, 2]], b"g", b"L", 2, None, "x"])
    )
    loaded = link_inbox.load(tx, STREAM, 10)
    assert loaded is not None
    assert (loaded.inbox.ahead, loaded.highest_id, loaded.highest_uid) == ({6, 7}, 7, b"g")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (keys.SPACE_LINK_INBOX + STREAM, f"the receiving window of stream {STREAM.hex()}"),
        (keys.SPACE_PEER + b"FAR", "the store id of queue manager FAR"),
    ],
)
def test_link_with_a_damaged_row_is_refused_and_others_are_served(
    store: AnyStore, app: Client, far: Far, key: bytes, words: str
) -> None:
    far.send(1, message(1))
    manager = app.manager
    tx = manager.store.begin()
    rows.put(tx, key, b"rot")
    tx.put(key, (tx.get(key) or b"") + b"!")
    manager.store.commit()
    manager.crash()
    again = Far(manager)
    again.client.send(m.LinkOpen(50, STREAM, 1, 2))
    outcome = manager.turn()
    (error,) = again.client.hear()
    assert (error.code, error.text.split(":")[0]) == (ErrorCode.STORE_DAMAGED, words)
    assert [note.event for note in outcome.notes] == ["the store is damaged"]
    other = Far(manager, "OTHER", b"O" * 16)
    assert other.open(b"O" * 16 + STREAM[16:])[0] == 0
