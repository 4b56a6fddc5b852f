"""Tests that a cursor survives changes of the queue, and that a browse changes nothing (G24)."""

from typing import Any

import pytest

from qmgr_config.model import FRAME_OVERHEAD_BYTES
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.queue.browse import LOOKED_AT_MAX
from tests.qmgrd.core.harness import STORE_ID, AnyStore, Client, Delivery, delivery, record
from tests.qmgrd.core.queue.test_selection import browsed, got


def page(
    app: Client, after: list[int] | None, count: int = 1, **fields: Any
) -> tuple[list[Delivery], list[int] | None]:
    value = app.ask(m.Browse, *m.Browse(0, "Q", after, count, 1 << 20, **fields)[1:])
    return [delivery(0, item) for item in value["items"]], value["next"]


def test_first_next_and_under_the_cursor_G24(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", b"2")
    (first,), cursor = page(app, None)
    (second,), cursor = page(app, cursor)
    assert (first.body, second.body, cursor) == (b"1", b"2", None)
    (under,), _ = page(app, None, uid=records.encode_uid(second.uid))
    assert under == second


def test_message_under_the_cursor_may_be_removed_G24(app: Client) -> None:
    """The answer is 2034 (no message under the cursor), and the cursor continues after it."""
    app.put("Q", b"1", b"2")
    (first,), cursor = page(app, None)
    uid = records.encode_uid(first.uid)
    app.ack(*app.get("Q"))
    assert page(app, None, uid=uid) == ([], None)
    (second,), _ = page(app, cursor)
    assert second.body == b"2"


def test_lock_is_a_lease_by_uid_and_unlock_counts_nothing_G24_G7(
    store: AnyStore, app: Client
) -> None:
    """2209: A message that is not locked cannot be unlocked."""
    app.put("Q", b"1", b"2")
    (first,), _ = page(app, None)
    uid = records.encode_uid(first.uid)
    (locked,) = got(app, uid=uid)
    assert [x.body for x in app.get("Q", 5)] == [b"2"]
    ((seen,), _) = page(app, None)
    assert seen.state & m.STATE_LEASED
    assert app.settle(m.UNREAD, locked) == []
    (again,) = got(app, uid=uid)
    assert (again.delivered, again.failed, again.state) == (0, 0, 0)
    assert app.settle(m.RENEW, locked) == [ErrorCode.LEASE_LOST]


def test_cursor_survives_puts_and_gets_G24(app: Client) -> None:
    """The cursor skips new messages before its position, and shows those after it."""
    app.put("Q", *[b"%d" % i for i in range(6)])
    found, cursor = page(app, None, 2)
    app.ack(*app.get("Q", 4))
    app.put("Q", b"late")
    app.put("Q", b"missed", priority=9)
    app.put("Q", b"last", priority=0)
    while cursor is not None:
        more, cursor = page(app, cursor, 2)
        found += more
    assert [x.body for x in found] == [b"0", b"1", b"4", b"5", b"late", b"last"]


def test_browsing_marks_nothing_G21_G24(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", correlation_id=b"c", expiry_ms=1_000)
    before = app.manager.scan(b"\x10"), app.show("Q")
    ways: list[dict[str, Any]] = [{}, {"where": "delivered = 0"}, {"correlation_id": b"c"}]
    for fields in ways:
        assert browsed(app, **fields) == [b"1"]
    assert (app.manager.scan(b"\x10"), app.show("Q")) == before


def test_page_with_a_selector_checks_a_limited_number_of_messages(app: Client) -> None:
    """Such a page may be empty without being the last page."""
    app.put("Q", *[b"x"] * (2 * LOOKED_AT_MAX + 100))
    app.put("Q", b"wanted", priority=1)
    sizes, cursor = [], None
    while True:
        found, cursor = page(app, cursor, 10, where="priority = 1")
        sizes.append(len(found))
        if cursor is None:
            break
    assert sizes == [0, 0, 1]


HEAVY = " OR ".join(["h LIKE '%" + "_" * 250 + "b%'"] * 14)


@pytest.mark.parametrize(("wanted", "count"), [("1 = 1", 12), ("1 = 2", 0)])
def test_page_is_shorter_if_the_selector_takes_long(app: Client, wanted: str, count: int) -> None:
    """A page checks at least one message, even if that takes a long time."""
    app.put("Q", *[b"x"] * 12, envelope={"headers": {"g": "a" * 4_000}})
    sizes, cursor = [], None
    for _ in range(99):
        found, cursor = page(app, cursor, 100, where=f"{HEAVY} OR {wanted}")
        sizes.append(len(found))
        if cursor is None:
            break
    assert (len(sizes), sum(sizes)) == (12, count)


def test_turn_has_few_pages_if_the_selector_takes_long(app: Client) -> None:
    app.put("Q", *[b"x"] * 12, envelope={"headers": {"g": "a" * 4_000}})
    for _ in range(12):
        app.send(m.Browse(app.next_id(), "Q", None, 1, 1 << 20, HEAVY))
    app.manager.turn()
    assert 1 <= len(app.hear()) <= app.manager.config.limits.turn_rows // 1_000 + 1


def test_expired_messages_count_as_checked(app: Client) -> None:
    app.put("Q", *[b"x"] * (LOOKED_AT_MAX + 1), expiry_ms=10)
    app.put("Q", b"1")
    app.manager.turns.broker.due_work.run = lambda: None  # type: ignore[method-assign]
    app.manager.advance(10)
    found, cursor = page(app, None, 10)
    assert (found, cursor is None) == ([], False)
    found, cursor = page(app, cursor, 10)
    assert [x.body for x in found] == [b"1"]


@pytest.mark.parametrize("count", [1, 3])
def test_delayed_messages_are_also_browsed_in_pages(app: Client, count: int) -> None:
    app.put("Q", b"now")
    app.put("Q", *[b"%d" % i for i in range(4)], delay_ms=1_000)
    assert browsed(app, count=count, delayed=True) == [b"0", b"1", b"2", b"3"]
    assert browsed(app, count=count) == [b"now"]


def test_selector_knows_the_priority_of_messages_that_wait_for_a_link(app: Client) -> None:
    """A transmission queue keeps all messages in the order of their ids."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:7470"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    for priority in (2, 8):
        app.put("F@NYC", b"%d" % priority, priority=priority)
    request = m.Browse(0, "@NYC", None, 10, 1 << 20, where="priority = 2")
    (item,) = app.ask(m.Browse, *request[1:])["items"]
    assert delivery(0, item).body == b"2"


def by_arrival(
    app: Client, after: int, count: int = 10, **fields: Any
) -> tuple[list[Delivery], dict[str, Any]]:
    place = [0, after, 0, m.ARRIVAL]
    ask = m.Browse(0, "Q", place if after else None, count, 1 << 20, order=m.ARRIVAL, **fields)
    value = app.ask(m.Browse, *ask[1:])
    return [delivery(0, item) for item in value["items"]], value


@pytest.mark.parametrize("count", [1, 2, 7])
def test_order_of_arrival_ignores_priorities_groups_and_delays(
    store: AnyStore, app: Client, count: int
) -> None:
    app.put("Q", b"1", priority=1)
    app.put("Q", b"2", priority=9, group=(b"g" * 24, 2, False))
    app.put("Q", b"3", priority=5, flags=records.FLAG_DELAYED, delay_ms=60_000)
    app.put("Q", b"4", priority=9)
    app.put("Q", b"5", priority=0, group=(b"g" * 24, 1, False))
    bodies: list[bytes] = []
    delays: dict[bytes, int] = {}
    after: int | None = 0
    while after is not None:
        found, value = by_arrival(app, after, count)
        bodies += [one.body for one in found]
        delays |= {found[at].body: ms for at, ms in value["delays"]}
        assert value["queue_id"] == app.manager.queue("Q").id
        assert value["store_id"] == STORE_ID.hex()
        after = None if value["next"] is None else value["next"][1]
    assert bodies == [b"1", b"2", b"3", b"4", b"5"]
    assert delays == {b"3": 60_000}
    assert [one.body for one in by_arrival(app, 3)[0]] == [b"4", b"5"]


def test_order_of_arrival_allows_selection_by_where_only(app: Client) -> None:
    app.put("Q", b"1", correlation_id=b"c")
    app.put("Q", b"2", priority=9, flags=records.FLAG_DELAYED, delay_ms=60_000)
    app.put("Q", b"3", priority=9)
    found, _ = by_arrival(app, 0, where="priority = 9")
    assert [one.body for one in found] == [b"2", b"3"]
    others: list[dict[str, Any]] = [
        {"correlation_id": b"c"},
        {"delayed": True},
        {"all_available": True},
    ]
    for fields in others:
        ask = m.Browse(0, "Q", order=m.ARRIVAL, **fields)
        with pytest.raises(
            RequestError, match="a browse in arrival order allows only the where selector"
        ):
            app.ask(m.Browse, *ask[1:])


@pytest.mark.parametrize("order", [m.PHYSICAL, m.LOGICAL, m.ARRIVAL])
def test_cursor_works_in_one_order_only(app: Client, order: int) -> None:
    cursors = {m.PHYSICAL: [9, 1], m.LOGICAL: [9, 1, 0, m.LOGICAL], m.ARRIVAL: [9, 1, 0, m.ARRIVAL]}
    for other, cursor in cursors.items():
        ask = m.Browse(0, "Q", cursor, order=order)
        if other == order:
            assert app.ask(m.Browse, *ask[1:])["items"] == []
        else:
            assert app.code_of(m.Browse, *ask[1:]) == ErrorCode.INCONSISTENT_BROWSE


def test_page_with_only_delayed_messages_stays_within_a_frame(app: Client) -> None:
    late = record(b"x" * 26, flags=records.FLAG_DELAYED, delay_ms=records.DELAY_MAX_MS)
    app.ask(m.QueueAlter, "Q", {"depth_max": m.GET_MAX_MESSAGES})
    for _ in range(m.GET_MAX_MESSAGES // 1_000):
        app.put_records("Q", *[late] * 1_000)
    _, value = by_arrival(app, 0, m.GET_MAX_MESSAGES)
    assert len(value["delays"]) == len(value["items"]) > 8_000
    assert len(pack(value)) < DELIVER_MAX_BYTES + FRAME_OVERHEAD_BYTES


def test_expired_messages_are_skipped_in_the_order_of_arrival(app: Client) -> None:
    app.put("Q", b"1", expiry_ms=1_000)
    app.put("Q", b"2", expiry_ms=5_000)
    app.manager.advance(2_000)
    found, _ = by_arrival(app, 0)
    assert [(one.body, m.REMAINING.unpack(one.tail)) for one in found] == [(b"2", (3_000,))]
