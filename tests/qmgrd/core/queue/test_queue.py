"""Tests of queues: order, leases, limits, and long or damaged messages."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.queue.queue import Queue
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, Manager, record

LEASE_LOST = ErrorCode.LEASE_LOST
MIB = 1 << 20
TOO_LARGE = "message of {} bytes (body, headers and 24 more) exceeds the limit of {} bytes"


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [delivery.body for delivery in deliveries]


# -- order


def test_queue_is_one_of_priorities_and_cleanly_closed_by_default() -> None:
    queue = Queue(1, "Q", Bounds(1, 1, 1, 1), Counters(next_arrival=7), Ids(1), Schedule())
    assert queue.positions.prefixes[9] < queue.positions.prefixes[0]
    assert queue.counters.maybe_before == 0


def test_order_is_priority_then_arrival(store: AnyStore, app: Client) -> None:
    for body, priority in [(b"low", 0), (b"a", 4), (b"top", 9), (b"b", 4), (b"top2", 9)]:
        app.put("Q", body, priority=priority)
    assert bodies(app.get("Q", 10)) == [b"top", b"top2", b"a", b"b", b"low"]


def test_returned_message_is_delivered_from_its_old_place(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    first, second = app.get("Q", 2)
    app.release(second)
    app.release(first)
    assert bodies(app.get("Q", 10)) == [b"1", b"2", b"3"]


def test_higher_priority_that_arrives_later_is_next(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    assert bodies(app.get("Q")) == [b"1"]
    app.put("Q", b"urgent", priority=9)
    assert bodies(app.get("Q", 10)) == [b"urgent", b"2", b"3"]


def test_order_survives_a_crash(store: AnyStore, app: Client) -> None:
    for i in range(40):
        app.put("Q", b"%d" % i, priority=i % 4)
    expected = app.bodies("Q")
    app.manager.crash()
    assert bodies(app.manager.connect().get("Q", 100)) == expected


# -- counts and flags


def test_fresh_message_is_not_redelivered(app: Client) -> None:
    app.put("Q", b"x")
    (first,) = app.get("Q")
    assert (first.delivered, first.failed, first.state) == (0, 0, 0)
    assert first.put_us == app.manager.wall_us


def test_release_counts_as_failed(store: AnyStore, app: Client) -> None:
    app.put("Q", b"x")
    for count in range(3):
        (lease,) = app.get("Q")
        assert (lease.delivered, lease.failed) == (count, count)
        assert lease.state == (m.STATE_REDELIVERED | m.STATE_NOTED if count else 0)
        app.release(lease)


def test_lost_connection_counts_as_delivered_only(store: AnyStore, app: Client) -> None:
    app.put("Q", b"x")
    other = app.manager.connect("other")
    other.get("Q")
    other.hang_up()
    app.manager.turn()
    (lease,) = app.get("Q")
    assert (lease.delivered, lease.failed, lease.state) == (1, 0, m.STATE_REDELIVERED)


def test_counts_survive_a_restart(store: AnyStore, app: Client) -> None:
    app.put("Q", b"x")
    app.release(*app.get("Q"))
    app.manager.restart()
    (lease,) = app.manager.connect().get("Q")
    state = m.STATE_REDELIVERED | m.STATE_NOTED
    assert (lease.delivered, lease.failed, lease.state) == (1, 1, state)


def test_after_a_crash_older_messages_are_maybe_redelivered(store: AnyStore, app: Client) -> None:
    app.put("Q", b"leased", b"never seen")
    app.get("Q")
    app.manager.crash()
    app = app.manager.connect()
    app.put("Q", b"new")
    states = [(x.body, x.state, x.delivered) for x in app.get("Q", 3)]
    maybe = m.STATE_MAYBE_REDELIVERED
    assert states == [(b"leased", maybe, 0), (b"never seen", maybe, 0), (b"new", 0, 0)]


def test_after_a_clean_stop_nothing_is_maybe_redelivered(store: AnyStore, app: Client) -> None:
    app.put("Q", b"leased", b"never seen")
    app.get("Q")
    app.manager.restart()
    leased, fresh = app.manager.connect().get("Q", 2)
    assert (leased.state, leased.delivered, leased.failed) == (m.STATE_REDELIVERED, 1, 0)
    assert (fresh.state, fresh.delivered) == (0, 0)


def test_message_from_before_a_crash_stays_maybe_redelivered(app: Client) -> None:
    """The flag survives a clean stop, until the message is delivered."""
    app.put("Q", b"old")
    app.manager.crash()
    app.manager.restart()
    app = app.manager.connect()
    app.put("Q", b"new")
    app.manager.restart()
    states = [(x.body, x.state) for x in app.manager.connect().get("Q", 2)]
    assert states == [(b"old", m.STATE_MAYBE_REDELIVERED), (b"new", 0)]


# -- settling


def test_ack_removes_for_good(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", b"2")
    assert app.ack(*app.get("Q")) == []
    app.manager.crash()
    assert app.manager.connect().bodies("Q") == [b"2"]


def test_ack_again_is_success(app: Client) -> None:
    """The answer is SETTLED_OR_GONE, because the first answer may have been lost."""
    app.put("Q", b"1")
    lease = app.get("Q")
    assert app.ack(*lease) == []
    assert app.ack(*lease) == []
    assert app.show("Q")["acked"] == 1


def test_ack_after_a_crash_settles_an_unleased_message(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", b"2")
    lease = app.get("Q")
    app.manager.crash()
    again = app.manager.connect("app", session=app.session)
    assert again.ack(*lease) == []
    assert again.bodies("Q") == [b"2"]


def test_ack_after_the_lease_settles_an_unleased_message(app: Client) -> None:
    app.put("Q", b"1")
    lease = app.get("Q", lease_ms=100)
    app.manager.turn(101)
    assert app.show("Q")["ready"] == 1
    assert app.ack(*lease) == []
    assert app.bodies("Q") == []


@pytest.mark.parametrize("action", [m.ACK, m.RELEASE])
def test_lease_of_another_client_is_lost(app: Client, action: int) -> None:
    app.put("Q", b"1")
    late = app.get("Q", lease_ms=100)
    app.manager.turn(101)
    other = app.manager.connect("other")
    (held,) = other.get("Q")
    assert app.settle(action, *late) == [LEASE_LOST]
    assert other.ack(held) == []
    assert app.settle(action, *late) == []


def test_lease_that_another_client_still_holds_is_lost(app: Client) -> None:
    app.put("Q", b"1")
    (held,) = app.get("Q")
    other = app.manager.connect("other")
    assert other.ack(held._replace(number=held.number + 1)) == [LEASE_LOST]
    assert other.ack(held._replace(number=0)) == [LEASE_LOST]
    assert app.show("Q")["leased"] == 1


def test_release_twice_counts_once(app: Client) -> None:
    app.put("Q", b"1")
    (lease,) = app.get("Q")
    assert app.release(lease) == app.release(lease) == []
    assert app.get("Q")[0].failed == 1


def test_exceptions_name_the_handle_among_many(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    leases = app.get("Q", 3)
    stolen = leases[1]._replace(number=7)
    handles = b"".join(x.handle for x in (leases[0], stolen, leases[2]))
    answers = app.say(m.Settle(50, m.ACK, leases[0].queue_id, handles))
    assert answers == [m.Settled(50, [[50, 1, LEASE_LOST]])]
    assert app.bodies("Q") == [b"2"]


def test_handle_of_another_priority_settles_nothing(app: Client) -> None:
    app.put("Q", b"1", priority=3)
    (lease,) = app.get("Q", lease_ms=100)
    app.manager.turn(101)
    assert app.ack(lease._replace(priority=255)) == []
    assert app.bodies("Q") == [b"1"]


def test_late_handle_with_a_priority_above_the_top_counts_as_the_top(app: Client) -> None:
    app.put("Q", b"1", b"2", priority=9)
    (lease,) = app.get("Q", lease_ms=100)
    app.manager.turn(101)
    assert app.ack(lease._replace(priority=255)) == []
    assert app.bodies("Q") == [b"2"]


def test_release_of_a_removed_message_affects_no_others(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    leases = app.get("Q", 3)
    app.ack(leases[0])
    assert app.release(*leases) == []
    assert bodies(app.get("Q", 3)) == [b"2", b"3"]


def test_settling_on_a_deleted_queue_is_success(app: Client) -> None:
    app.put("Q", b"1")
    lease = app.get("Q")
    app.ask(m.QueueDelete, "Q", True)
    assert app.ack(*lease) == []
    assert app.release(*lease) == []


# -- limits


def test_full_queue_refuses_with_numbers(app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 2})
    (refused,) = app.put_records("SMALL", *(record(b"x") for _ in range(3)))
    assert refused == (
        3,
        ErrorCode.QUEUE_FULL,
        "queue SMALL is full: it has 2 messages, and the limit is 2",
    )
    app.ack(*app.get("SMALL"))
    app.put("SMALL", b"fits again")


def test_leased_messages_count_as_depth(app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    app.put("SMALL", b"x")
    app.get("SMALL")
    assert app.put_records("SMALL", record(b"y"))[0].code is ErrorCode.QUEUE_FULL


def test_queue_full_of_bytes_refuses_what_does_not_fit(app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"bytes_max": 1_024})
    app.put("SMALL", bytes(600))
    (refused,) = app.put_records("SMALL", record(bytes(600)))
    assert refused.code is ErrorCode.QUEUE_BYTES_FULL
    assert "exceed the limit of 1024" in refused.text
    app.put("SMALL", b"a small one fits")


def test_message_over_the_limit_is_refused_alone() -> None:
    manager = Manager(limits={"message_max_bytes": "2 KiB"})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    batch = [record(b"a"), record(bytes(2048)), record(b"b")]
    (refused,) = app.put_records("Q", *batch)
    assert refused == (2, ErrorCode.MESSAGE_TOO_LARGE, TOO_LARGE.format(2072, 2048))
    assert app.bodies("Q") == [b"a", b"b"]
    app.ask(m.QueueAlter, "Q", {"message_max_bytes": 1_024})
    (refused,) = app.put_records("Q", record(bytes(1_024)))
    assert refused.text == (
        f"{TOO_LARGE.format(1048, 1024)} on queue Q; split it, or raise "
        "message_max_bytes of the queue"
    )


def test_damaged_record_is_refused_at_put(app: Client) -> None:
    good = record(b"hello")
    batch = [good[:-1] + b"0", good[:10], b"", good + b"longer"]
    codes = [refused.code for refused in app.put_records("Q", *batch)]
    malformed = ErrorCode.RECORD_MALFORMED
    assert codes == [ErrorCode.CHECKSUM_MISMATCH, malformed, malformed, ErrorCode.CHECKSUM_MISMATCH]
    assert app.show("Q")["refused"] == 4


def test_leases_of_a_queue_are_limited() -> None:
    manager = Manager(queue_defaults={"leases_max": 3})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"x"] * 10)
    app.consume("Q")
    manager.rest()
    held = app.delivered()
    assert len(held) == 3
    assert app.ack(held[0]) == []
    manager.rest()
    assert len(app.delivered()) == 1
    app.release(*held[1:])
    manager.rest()
    assert [x.delivered for x in app.delivered()] == [1, 1]


# -- long messages


@pytest.mark.parametrize("size", [3_800, 4_000, 4_001, 70_000, 4 * MIB - 100])
def test_long_message_is_stored_in_rows_and_leaves_none(
    store: AnyStore, app: Client, size: int
) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    app.put("Q", body[:size], b"short")
    app.manager.crash()
    app = app.manager.connect()
    assert all(len(value) <= 4_000 for _, value in app.manager.scan(b""))
    held = app.get("Q")
    assert bodies(held) == [body[:size]]
    app.release(*held)
    app.ack(*app.get("Q"))
    app.manager.rest()
    assert app.manager.scan(keys.SPACE_BODY) == []
    (short,) = app.browse("Q")
    assert app.show("Q")["bytes"] == len(short.record)


def test_late_ack_of_a_long_message_leaves_nothing(app: Client) -> None:
    app.put("Q", bytes(10_000))
    lease = app.get("Q", lease_ms=100)
    app.manager.turn(101)
    assert app.ack(*lease) == []
    assert app.manager.scan(keys.SPACE_BODY) == []


def test_delivery_of_long_messages_is_split_into_frames(app: Client) -> None:
    for _ in range(5):
        app.put("Q", bytes(DELIVER_MAX_BYTES // 2))
    app.consume("Q")
    app.manager.rest()
    deliveries = [x for x in app.hear() if type(x) is m.Deliver]
    assert sum(len(x.items) for x in deliveries) == 5
    assert max(sum(map(len, x.items)) for x in deliveries) < DELIVER_MAX_BYTES + 100


# -- damage


def flip(manager: Manager, key: bytes, index: int, mask: int = 0x40) -> None:
    """Changes one byte of a stored value, as a bad disk would."""
    tx = manager.store.begin()
    value = bytearray(tx.get(key) or b"")
    value[index] ^= mask
    tx.put(key, bytes(value))
    manager.store.commit()


def message_keys(manager: Manager) -> list[bytes]:
    return [key for key, _ in manager.scan(keys.lane(manager.queue("Q").id, keys.LANE_READY))]


def test_damaged_message_is_set_aside_and_the_rest_delivered(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", b"damaged", b"3")
    flip(app.manager, message_keys(app.manager)[1], entries.HEAD_BYTES + 24)
    assert bodies(app.get("Q", 3)) == [b"1", b"3"]
    (note,) = [x for x in app.manager.last.notes if x.level == "error"]
    assert note.facts == {"queue": "Q", "count": 1}
    row = app.show("Q")
    assert (row["depth"], row["damaged"], row["leased"]) == (2, 1, 2)
    assert len(app.manager.scan(keys.lane(row["queue_id"], keys.LANE_DAMAGED))) == 1


def test_long_message_with_a_damaged_row_is_set_aside(store: AnyStore, app: Client) -> None:
    app.put("Q", bytes(10_000), b"2")
    flip(app.manager, app.manager.scan(keys.SPACE_BODY)[1][0], 77)
    assert bodies(app.get("Q", 2)) == [b"2"]
    app.ask(m.QueueDelete, "Q", True)
    app.manager.rest()
    assert app.manager.scan(keys.SPACE_BODY) == []


def test_queue_with_only_damaged_messages_becomes_idle(app: Client) -> None:
    app.put("Q", b"1", b"2")
    for key in message_keys(app.manager):
        flip(app.manager, key, entries.HEAD_BYTES + 24)
    app.consume("Q")
    app.manager.rest()
    assert app.delivered() == []
    assert app.show("Q")["depth"] == 0


def test_damaged_message_may_be_put_again(app: Client) -> None:
    """The damaged message has left the queue, so a client may put the message again."""
    app.put_records("Q", record(b"sound", uid=("A", 5)))
    flip(app.manager, message_keys(app.manager)[0], entries.HEAD_BYTES + 24)
    assert app.get("Q") == []
    assert app.put_records("Q", record(b"sound", uid=("A", 5))) == []
    assert bodies(app.get("Q")) == [b"sound"]


@pytest.mark.parametrize("body", [b"sound", bytes(10_000)], ids=["short", "long"])
@pytest.mark.parametrize("index", [-1, -8, -9])
@pytest.mark.parametrize("meanwhile", ["nothing", "set aside", "purged", "crashed"])
def test_message_with_a_damaged_uid_may_be_put_again(
    body: bytes, index: int, meanwhile: str
) -> None:
    """The damaged UID no longer points to the row in the UID index."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    sound = record(body, uid=("A", 5))
    app.put_records("Q", sound)
    flip(manager, message_keys(manager)[0], index)
    match meanwhile:
        case "set aside":
            assert app.get("Q") == []
        case "purged":
            app.ask(m.QueuePurge, "Q")
        case "crashed":
            manager.crash()
            app = manager.connect()
    assert app.put_records("Q", sound) == []
    (refused,) = app.put_records("Q", sound)
    assert refused.code is ErrorCode.DUPLICATE_MESSAGE
    (lease,) = app.get("Q", 2)
    assert lease.body == body
    assert app.ack(lease) == []
    assert app.put_records("Q", sound) == []


def test_damaged_uid_of_another_message_leaves_that_one_alone(app: Client) -> None:
    """One flipped bit changes UID A.5 into A.4. Message A.4 and its index row are not affected."""
    app.put_records("Q", record(b"4", uid=("A", 4)), record(b"5", uid=("A", 5)))
    key = message_keys(app.manager)[1]
    tx = app.manager.store.begin()
    tx.put(key, (tx.get(key) or b"")[:-1] + b"\4")
    app.manager.store.commit()
    assert bodies(app.get("Q", 2)) == [b"4"]
    (refused,) = app.put_records("Q", record(b"4", uid=("A", 4)))
    assert refused.code is ErrorCode.DUPLICATE_MESSAGE
    app.ask(m.QueueDelete, "Q", True)


def test_any_flipped_byte_of_an_entry_affects_that_message_only() -> None:
    """No damaged byte, in any part, may cause wrong data or a crash."""
    size = entries.HEAD_BYTES + len(record(b"22", uid=("QM1", 7)))
    for index in range(size):
        manager = Manager()
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put_records("Q", *(record(b"%d%d" % (i, i), uid=("QM1", 6 + i)) for i in range(1, 4)))
        flip(manager, message_keys(manager)[1], index)
        app.browse("Q")
        held = [(x.uid.timestamp, x.body) for x in app.get("Q", 3)]
        expected = [(7, b"11"), (8, b"22"), (9, b"33")]
        assert held in (expected, [expected[0], expected[2]]), f"byte {index}"
        assert app.show("Q")["damaged"] == 3 - len(held)
        app.ask(m.QueuePurge, "Q")
        manager.crash()
        manager.connect().ask(m.QueueDelete, "Q", True)
        manager.rest()


@pytest.mark.parametrize("index", range(entries.HEAD_BYTES + 36))
def test_purge_removes_damaged_messages(index: int) -> None:
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"1", b"2", b"3")
    flip(manager, message_keys(manager)[1], index)
    assert app.ask(m.QueuePurge, "Q") == {"messages": 3}
    assert message_keys(manager) == []
    assert app.show("Q")["depth"] == 0


# -- browse


def test_browse_leases_nothing_and_shows_leased_messages(app: Client) -> None:
    app.put("Q", b"1", b"2")
    app.get("Q")
    assert [(x.body, x.state, x.number) for x in app.browse("Q")] == [
        # If the number were shown, a browsing client could settle the message for its holder.
        (b"1", m.STATE_LEASED, 0),
        (b"2", 0, 0),
    ]
    assert app.show("Q")["leased"] == 1


def test_browse_begins_with_the_very_first_message(app: Client) -> None:
    app.put("Q", b"1", b"2", priority=9)
    assert app.bodies("Q") == [b"1", b"2"]


def test_browse_shows_the_counts_of_a_delivery_and_that_it_is_leased(app: Client) -> None:
    app.put("Q", b"1", b"2")
    app.release(*app.get("Q", 2))
    app.get("Q")
    states = [x.state for x in app.browse("Q")]
    returned = m.STATE_REDELIVERED | m.STATE_NOTED
    assert states == [returned | m.STATE_LEASED, returned]


def test_browse_shows_what_fits_to_the_byte(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    size = sum(len(x.record) for x in app.browse("Q")[:2])
    shown = [len(app.ask(m.Browse, "Q", None, 100, limit)["items"]) for limit in (size - 1, size)]
    assert shown == [1, 2]


def test_browse_pages_through_priorities(app: Client) -> None:
    for i in range(10):
        app.put("Q", b"%d" % i, priority=i // 4)
    found, after, pages = [], None, 0
    while pages == 0 or after is not None:
        value = app.ask(m.Browse, "Q", after, 3, 1 << 30)
        found += [x[m.DELIVERY_BYTES + 24 :][:1] for x in value["items"]]
        after, pages = value["next"], pages + 1
    assert b"".join(found) == b"8945670123"
    assert pages == 4


def test_browse_continues_behind_a_removed_message(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    after = app.ask(m.Browse, "Q", None, 1)["next"]
    app.ack(*app.get("Q", 2))
    value = app.ask(m.Browse, "Q", after, 5)
    assert (len(value["items"]), value["next"]) == (1, None)


def test_browse_is_limited_in_bytes_but_shows_at_least_one(app: Client) -> None:
    app.put("Q", bytes(1000), bytes(1000), bytes(1000))
    value = app.ask(m.Browse, "Q", None, 100, 1)
    assert (len(value["items"]), value["next"]) == (1, [4, 1])
    assert len(app.ask(m.Browse, "Q", None, 100, 2500)["items"]) == 2


def test_browse_stays_within_a_frame(app: Client) -> None:
    for _ in range(4):
        app.put("Q", bytes(3 * MIB))
    value = app.ask(m.Browse, "Q", None, 100, 1 << 40)
    assert sum(map(len, value["items"])) < app.manager.config.limits.frame_max_bytes
    assert value["next"] is not None


def test_browse_after_the_end_finds_nothing(app: Client) -> None:
    app.put("Q", b"1", priority=0)
    page = app.ask(m.Browse, "Q", [0, 2**63 - 1])
    assert (page["items"], page["next"]) == ([], None)
    assert len(app.ask(m.Browse, "Q", [255, 2**63 - 1])["items"]) == 1


# -- statistics


def test_consumers_are_counted_and_waiting_gets_are_not(app: Client) -> None:
    for messages in (1, 2):
        app.consume("Q", messages)
    app.send(m.Get(app.next_id(), "Q", 1, 60_000))
    app.manager.rest()
    assert app.show("Q")["consumers"] == 2


# -- numbers


def test_lease_numbers_never_repeat_over_crashes(app: Client) -> None:
    seen: set[int] = set()
    app.put("Q", *[b"x"] * 5)
    for _ in range(3):
        numbers = {x.number for x in app.manager.connect().get("Q", 5)}
        assert len(numbers) == 5
        assert not numbers & seen
        seen |= numbers
        app.manager.crash()


@pytest.mark.parametrize("mask", [0x40, 1, 2, 3])
@pytest.mark.parametrize("index", range(entries.HEAD_BYTES + 12))
def test_damaged_entry_of_a_long_message_harms_no_other(index: int, mask: int) -> None:
    """Body ids are consecutive, so one flipped bit can point to another message's rows."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    bodies = [bytes([65 + i]) * 5_000 for i in range(3)]
    app.put("Q", *bodies)
    rotten = message_keys(manager)[1]
    flip(manager, rotten, index, mask)
    ((_, value),) = manager.scan(rotten)
    # a message that does not fit and is left for the next frame
    ends_frame = entries.separate_bytes(value) > DELIVER_MAX_BYTES
    leased = app.get("Q", 3)
    assert (len(leased) == 1) is ends_frame
    if ends_frame:
        leased += app.get("Q", 3)
    assert [x.body for x in leased] in (bodies, [bodies[0], bodies[2]])
    app.ack(*leased)
    app.put("Q", b"after")
    assert [x.body for x in app.get("Q", 3)] == [b"after"]
    manager.rest()


def test_damaged_size_does_not_fail_a_later_ack() -> None:
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"x" * 5_000, b"y" * 5_000)
    flip(manager, message_keys(manager)[1], entries.HEAD_BYTES + 8)  # the size of the record
    app.ack(*app.get("Q", 2))
    app.ask(m.QueuePurge, "Q")
    app.put("Q", b"z" * 5_000)
    assert app.ack(*app.get("Q")) == []
    assert app.show("Q")["bytes"] == 0
