"""Tests of messages to be put, and of their records."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from qmgr_client.outgoing import Outgoing, delay_until, encode
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import (
    FLAG_NOT_PERSISTENT,
    FLAG_PRIORITY_OF_QUEUE,
    FLAG_REPORT_EXPIRY,
    FLAG_RETAINED,
    Uid,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GROUP_ID = b"g" * 24


def test_priority_defaults_to_that_of_the_queue() -> None:
    head = records.check(encode(Outgoing(b"x")))
    assert (head.priority, head.flags) == (4, FLAG_PRIORITY_OF_QUEUE)
    head = records.check(encode(Outgoing(b"x", priority=4)))
    assert (head.priority, head.flags) == (4, 0)


def test_all_options_are_in_the_record() -> None:
    outgoing = Outgoing(
        b"x",
        priority=9,
        expiry_ms=60_000,
        delay_ms=1_000,
        persistent=False,
        report=True,
        group=(GROUP_ID, 3, True),
    )
    fields = records.decode(encode(outgoing))
    assert fields.flags == FLAG_NOT_PERSISTENT | FLAG_REPORT_EXPIRY
    assert (fields.priority, fields.expiry_ms, fields.delay_ms) == (9, 60_000, 1_000)
    assert fields.group == (GROUP_ID, 3, True)


def test_retained_publication_has_its_flag() -> None:
    plain, kept = (records.check(encode(Outgoing(b"x", retained=x))).flags for x in (False, True))
    assert kept == plain | FLAG_RETAINED
    assert kept == FLAG_PRIORITY_OF_QUEUE | FLAG_RETAINED


@pytest.mark.parametrize(
    ("deliver_at", "delay_ms"),
    [
        (NOW + timedelta(hours=1), 3_600_000),
        (NOW + timedelta(microseconds=1), 1),
        (NOW, 0),
        (NOW - timedelta(days=1), 0),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=1))), 3_600_000),
    ],
)
def test_time_of_day_becomes_a_delay(deliver_at: datetime, delay_ms: int) -> None:
    outgoing = Outgoing(b"x", deliver_at=deliver_at).resolved(NOW)
    assert (outgoing.deliver_at, outgoing.delay_ms) == (None, delay_ms)
    assert Outgoing(b"x").resolved(NOW) == Outgoing(b"x")


def test_key_becomes_a_uid() -> None:
    outgoing = Outgoing(b"x", key="invoice-7", deliver_at=NOW + timedelta(seconds=1)).resolved(NOW)
    assert (outgoing.key, outgoing.uid) == (None, Uid("key.invoice-7", 0))
    assert (outgoing.deliver_at, outgoing.delay_ms) == (None, 1_000)


@pytest.mark.parametrize(
    ("outgoing", "why"),
    [
        (Outgoing(b"x", key="a", uid=Uid("A", 1)), "uid and key are both set"),
        (Outgoing(b"x", deliver_at=datetime(2026, 1, 1)), "has no time zone"),
        (Outgoing(b"x", deliver_at=NOW, delay_ms=1), "both set"),
        (Outgoing(b"x", deliver_at="noon"), "of type str, not datetime"),  # type: ignore[arg-type]
    ],
)
def test_contradictory_options_are_refused(outgoing: Outgoing, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        outgoing.resolved(NOW)
    assert caught.value.code == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"delay_ms": -1}, "delay of -1 ms"),
        ({"delay_ms": records.DELAY_MAX_MS + 1}, "delay of"),
        ({"expiry_ms": 2**63}, "expiry of"),
        ({"expiry_ms": "1"}, "expiry_ms is of type str"),
        ({"delay_ms": 1.5}, "delay_ms is of type float"),
        ({"group": (b"short", 1, False)}, "the group id b'short' is 5 bytes, not 24: to use text"),
        ({"group": (GROUP_ID,)}, r"is not \(id, number, last\): a group id"),
        ({"group": (GROUP_ID, 1, "x" * 300, 4)}, "the group .{80} is not .id, number"),
        ({"group": ("g" * 25, 1, False)}, "is a text of 25 bytes exceeds the limit of 24 bytes"),
        ({"priority": "9"}, "priority is of type str"),
    ],
)
def test_option_out_of_range_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        encode(Outgoing(b"x", **options))
    assert caught.value.code == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize("number", [-1, 0, 1_000_000_000])
def test_number_that_no_message_has_in_a_group_is_refused(number: int) -> None:
    """E19: The error is GROUP_NUMBER_INVALID (2250)."""
    with pytest.raises(RequestError, match=f"number {number} in a group") as caught:
        encode(Outgoing(b"x", group=(GROUP_ID, number, False)))
    assert caught.value.code == ErrorCode.GROUP_NUMBER_INVALID


def test_delay_of_what_is_no_time_names_it() -> None:
    with pytest.raises(RequestError, match="retry_at"):
        delay_until(datetime(2026, 1, 1), NOW, "retry_at")
