"""Tests of the operations on queues without asyncio, with a real daemon in a thread."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, connect
from qmgr_client.rows import JobRow
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.served import Server

DEAD_LETTERS, EVENTS = "SYSTEM.DEAD.LETTERS", "SYSTEM.EVENTS"
SOON_MS = 50  # time that a test waits
LONG_MS = 20_000  # time after which a test gives up


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connect(server.address) as client:
        yield client


def bodies(client: Client, queue: str, count: int = 10) -> list[bytes]:
    """Gets and acknowledges all messages, and returns their bodies."""
    found = client.get_many(queue, count)
    client.ack_many(found)
    return [message.body for message in found]


def browsed(client: Client, queue: str) -> list[bytes]:
    return [message.body for message in client.browse(queue)]


def refused(caught: "pytest.ExceptionInfo[RequestError]") -> ErrorCode:
    return ErrorCode(caught.value.code)


def test_unit_goes_over_queues_at_once(client: Client, server: Server) -> None:
    """G20, G22: Other clients do not see the puts and gets of a unit until the commit."""
    for queue in ("ORDERS", "BILLS"):
        client.admin.queue_create(queue)
    client.put("ORDERS", b"order")
    with connect(server.address) as other, client.unit_of_work() as unit:
        order = unit.get("ORDERS")
        assert order is not None
        unit.put("BILLS", b"bill")
        assert other.get("ORDERS") is other.get("BILLS") is None
        unit.commit()
        assert other.get("ORDERS") is None
        assert bodies(other, "BILLS") == [b"bill"]


def test_unit_that_is_backed_out_or_lost_was_never_there(client: Client, server: Server) -> None:
    """G20, G21: Its messages return to their positions, with a higher backout count."""
    client.admin.queue_create("Q")
    client.put_many("Q", [b"1", b"2"])
    with client.unit_of_work() as unit:
        assert [message.body for message in unit.get_many("Q", 2)] == [b"1", b"2"]
        unit.put("Q", b"3")
        unit.backout()
    again = client.get_many("Q", 5)
    assert [(message.body, message.failed) for message in again] == [(b"1", 1), (b"2", 1)]
    for message in again:
        client.release(message, failed=False)
    with connect(server.address) as other:
        unit = other.unit_of_work().__enter__()
        unit.get("Q")
        unit.put("Q", b"4")
    first, second = client.get("Q", wait_ms=LONG_MS), client.get("Q")
    assert first is not None
    assert second is not None
    assert (first.body, second.body, client.get("Q")) == (b"1", b"2", None)


def test_message_put_first_and_committed_later_is_got_first(client: Client) -> None:
    """G23, A12: A second put with the same UID is refused."""
    client.admin.queue_create("Q")
    with client.unit_of_work() as unit:
        result = unit.put("Q", b"first")
        client.put("Q", b"second")
        with pytest.raises(RequestError) as caught:
            client.put("Q", b"first", uid=result.uid)
        assert refused(caught) is ErrorCode.DUPLICATE_UNCOMMITTED
    assert bodies(client, "Q") == [b"first", b"second"]


def test_nonpersistent_message_is_lost_in_a_restart(tmp_path: Path) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q")
        client.put("Q", b"gone", persistent=False)
        client.put("Q", b"kept")
        assert browsed(client, "Q") == [b"gone", b"kept"]
    with Server(tmp_path) as server, connect(server.address) as client:
        assert browsed(client, "Q") == [b"kept"]
        assert client.admin.queue_show("Q")["lost"] == 1


def test_ways_a_lease_ends(client: Client, server: Server) -> None:
    client.admin.queue_create("Q")
    client.put("Q", b"x")
    with connect(server.address) as dying:
        assert dying.get("Q", lease_ms=LONG_MS) is not None
    back = client.get("Q", wait_ms=LONG_MS, lease_ms=SOON_MS)  # immediately, as the holder has left
    assert back is not None
    assert (back.delivered, back.failed) == (1, 0)
    late = client.get("Q", wait_ms=LONG_MS)  # after the lease of the silent client has ended
    assert late is not None
    assert (late.delivered, late.failed) == (2, 1)
    client.renew(late, LONG_MS)
    client.release(late, SOON_MS, failed=False)
    assert client.get("Q") is None
    assert [message.body for message in client.browse("Q", delayed=True)] == [b"x"]
    later = client.get("Q", wait_ms=LONG_MS)
    assert later is not None
    assert (later.delivered, later.failed) == (3, 1)
    client.release(later, retry_at=datetime.now(UTC) + timedelta(milliseconds=SOON_MS))
    last = client.get("Q", wait_ms=LONG_MS)
    assert last is not None
    client.ack(last)


def test_failures_lead_to_the_dead_letters_and_back(client: Client) -> None:
    """G24: A dead letter shows why its consumers failed, and can be moved back to its queue."""
    client.admin.queue_create("Q", backout_threshold=2, retry_initial_ms=SOON_MS)
    client.put("Q", b"x")
    for text in ("first", "second"):
        message = client.get("Q", wait_ms=LONG_MS)
        assert message is not None
        client.release(message, reason="BANK_DOWN", text=text)
    assert browsed(client, "Q") == []
    (letter,) = client.browse(DEAD_LETTERS)
    assert letter.dead is not None
    assert (letter.dead.queue, letter.dead.reason, letter.dead.failed) == ("Q", "BANK_DOWN", 2)
    assert [attempt.text for attempt in letter.attempts] == ["first", "second"]
    moving = client.admin.queue_move(DEAD_LETTERS, where="dead_reason = 'BANK_DOWN'")
    assert done(client, moving["job"])["done"] == 1
    home = client.get("Q")
    assert home is not None
    client.reject(home, "WRONG", "no such account")
    (letter,) = client.browse(DEAD_LETTERS)
    assert letter.dead is not None
    assert (letter.dead.reason, letter.dead.text) == ("WRONG", "no such account")
    assert client.admin.queue_purge(DEAD_LETTERS, "dead_queue = 'Q'") == {"messages": 1}


def done(client: Client, job: int) -> JobRow:
    """Waits for the end of a job and returns its row."""
    while True:
        row = client.admin.job_show(job)
        if row["state"] not in ("running", "waiting"):
            return row


def test_breaker_pauses_and_probes(client: Client) -> None:
    client.admin.queue_create("Q", breaker_percent=50, breaker_messages_min=2, breaker_pause_ms=100)
    client.put_many("Q", [b"1", b"2", b"3"])
    for message in client.get_many("Q", 2):
        client.release(message)
    assert client.admin.queue_show("Q")["breaker"] == "open"
    assert client.get("Q") is None
    probe = client.get_many("Q", 3, wait_ms=LONG_MS)
    assert [message.body for message in probe] == [b"1"]
    client.ack(probe[0])
    assert client.admin.queue_show("Q")["breaker"] == "closed"
    assert bodies(client, "Q") == [b"2", b"3"]


def test_times(client: Client) -> None:
    for queue in ("Q", "REPORTS"):
        client.admin.queue_create(queue)
    client.put("Q", b"late", delay_ms=SOON_MS)
    client.put("Q", b"dated", deliver_at=datetime.now(UTC) + timedelta(hours=1))
    client.put("Q", b"short", expiry_ms=1, reply_to="REPORTS", report=True)
    report = client.get("REPORTS", wait_ms=LONG_MS)
    assert report is not None
    message = client.get("Q", wait_ms=LONG_MS)
    assert message is not None
    assert message.body == b"late"
    shown = client.admin.queue_show("Q")
    assert (shown["expired"], shown["delayed"]) == (1, 1)
    client.admin.queue_alter("Q", expiry_max_ms=1, expiry_action="dead-letter")
    client.put("Q", b"capped")
    dead = client.get(DEAD_LETTERS, wait_ms=LONG_MS)
    assert dead is not None
    assert dead.dead is not None
    assert (dead.body, dead.dead.code) == (b"capped", ErrorCode.MESSAGE_EXPIRED)


def test_selection(client: Client) -> None:
    """A13: A get can select messages by id and by header."""
    for queue in ("Q", "BIG"):
        client.admin.queue_create(queue)
    uid = client.put("Q", b"plain").uid
    client.put("Q", b"asked", correlation_id=b"c1")
    client.put("Q", b"grouped", group=(b"g" * 24, 1, True))
    for carrier, seats in (("UA", 100), ("UA", 300), ("DL", 300)):
        headers = {"carrier": carrier, "seats": seats}
        client.put("Q", f"{carrier} {seats}".encode(), headers=headers, priority=6)
    wanted = "priority > 5 and carrier = 'UA'"
    assert [x.body for x in client.browse("Q", where=wanted)] == [b"UA 100", b"UA 300"]
    for selection, body in (
        ({"uid": uid}, b"plain"),
        ({"correlation_id": b"c1"}, b"asked"),
        ({"group_id": b"g" * 24}, b"grouped"),
        ({"where": wanted}, b"UA 100"),
    ):
        message = client.get("Q", **selection)
        assert message is not None
        assert message.body == body
        client.ack(message)
    with client.consume("Q", where="seats between 200 and 400") as consumer:
        assert next(consumer).body == b"UA 300"
    moving = client.admin.queue_move("Q", "BIG", where="carrier like 'D%'")
    assert done(client, moving["job"])["state"] == "done"
    assert browsed(client, "BIG") == [b"DL 300"]
    with pytest.raises(RequestError) as caught:
        client.get("Q", where="carrier = ")
    assert refused(caught) is ErrorCode.SELECTOR_INVALID


def test_browsing_marks_nothing_and_outlives_gets_and_puts(client: Client) -> None:
    client.admin.queue_create("Q")
    client.put_many("Q", [b"1", b"2", b"3"])
    walk = iter(client.browse("Q", 1))
    first = next(walk)
    assert bodies(client, "Q", 2) == [b"1", b"2"]
    client.put("Q", b"4")
    assert [x.body for x in client.browse("Q", after=first)] == [b"3", b"4"]
    left = client.get("Q")
    assert left is not None
    assert (left.delivered, left.redelivered) == (0, "no")


def test_attributes(client: Client, server: Server) -> None:
    client.admin.queue_create("Q", depth_max=1, priority_default=7, dedup_retention_ms=LONG_MS)
    client.admin.queue_create("SALES", alias_of="Q")
    client.put("SALES", b"old")
    with pytest.raises(RequestError) as caught:
        client.put("Q", b"too many")
    assert refused(caught) is ErrorCode.QUEUE_FULL
    client.admin.queue_alter("Q", overflow="dead-letter-oldest")
    client.put("Q", b"new")
    assert (browsed(client, "Q"), browsed(client, DEAD_LETTERS)) == ([b"new"], [b"old"])
    message = client.get("SALES")
    assert message is not None
    assert message.priority == 7
    client.ack(message)
    with pytest.raises(RequestError) as caught:  # The queue manager remembers this UID.
        client.put("Q", b"new", uid=message.uid)
    assert refused(caught) is ErrorCode.DUPLICATE_MESSAGE
    client.admin.template_set("ONLY.*", exclusive=True)
    client.admin.queue_create("ONLY.ONE")
    with connect(server.address) as other, client.consume("ONLY.ONE"):
        client.admin.status()  # Answers arrive in order, so the consumer is open now.
        with pytest.raises(RequestError) as caught:
            other.get("ONLY.ONE")
    assert refused(caught) is ErrorCode.QUEUE_EXCLUSIVE


def test_copies_and_events(client: Client) -> None:
    for queue in ("Q", "COPY"):
        client.admin.queue_create(queue)
    client.put_many("Q", [b"1", b"2"])
    copying = client.admin.queue_move("Q", "COPY", copy=True)
    assert done(client, copying["job"])["done"] == 2
    assert browsed(client, "Q") == browsed(client, "COPY") == [b"1", b"2"]
    client.admin.queue_alter("Q", put_inhibit=True, depth_max=2)
    with pytest.raises(RequestError) as caught:
        client.put("Q", b"3")
    assert refused(caught) is ErrorCode.PUT_INHIBITED
    message = client.get("COPY")
    assert message is not None
    client.reject(message, "WRONG")
    events = [json.loads(event.body)["event"] for event in client.browse(EVENTS)]
    assert "message dead-lettered" in events
