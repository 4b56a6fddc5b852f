"""Tests of the messages. test_layout.py and the golden vectors cover their encoding."""

from typing import Any

import pytest

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.errors import FieldInvalid


def test_handle_and_delivery_head_have_the_sizes_of_the_protocol() -> None:
    assert m.HANDLE.size == 17
    assert m.DELIVERY_BYTES == 30


def test_delivery_head_starts_with_the_handle() -> None:
    """A client copies the handle for a settle from the start of the head."""
    item = m.DELIVERY.pack(9, 17, 5, 2, 1, m.STATE_REDELIVERED, 99)
    assert item[: m.HANDLE.size] == m.HANDLE.pack(9, 17, 5)


def test_states_of_a_delivery_are_bits() -> None:
    assert [m.STATE_REDELIVERED, m.STATE_MAYBE_REDELIVERED, m.STATE_LEASED] == [1, 2, 4]


@pytest.mark.parametrize("kind", layout.NUMBERS, ids=lambda kind: kind.__name__)
def test_request_names_its_request_first(kind: type[Any]) -> None:
    """Therefore a listener can refuse an unknown operation under the right id."""
    if "request_id" in kind._fields:
        assert kind._fields[0] == "request_id"


def test_operation_unknown_says_which() -> None:
    unknown = m.OperationUnknown(99, 41)
    assert (str(unknown), unknown.operation, unknown.request_id) == (
        "operation 99 is unknown",
        99,
        41,
    )


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (m.Hello(m.MAGIC, 1, 1, "client", "a"), "session"),
        (m.Welcome(1, "QM1", b"S" * 16, 1, session=b"secret"), "auth_data"),
    ],
)
def test_empty_field_that_older_peers_do_not_know_is_left_out(message: Any, field: str) -> None:
    array = layout.to_array(message)
    assert len(array) == 1 + message._fields.index(field)
    assert layout.parse(list(array)) == message
    filled = message._replace(**{field: b"secret"})
    assert layout.to_array(filled) == (*array, b"secret", 0)
    assert layout.parse([*array, b"secret"]) == filled


def test_welcome_without_a_session_is_read() -> None:
    message = m.Welcome(1, "QM1", b"S" * 16, 1)
    assert layout.parse(list(layout.to_array(message))[:-1]) == message


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (m.HistoryRead(1, -1), r"HistoryRead\.after: "),
        (m.HistoryRead(1, 0, 2**63), r"HistoryRead\.until: "),
        (m.HistoryRead(1, 0, 0, 2**32), r"HistoryRead\.bytes_max: "),
        (m.CursorCommit(1, 7, 1), r"CursorCommit\.cursor: "),  # type: ignore[arg-type]
        (m.CursorCommit(1, "A", 2**63), r"CursorCommit\.position: "),
        (m.CursorDelete(1, 7), r"CursorDelete\.cursor: "),  # type: ignore[arg-type]
        (m.Subscribe(1, 7), "Subscribe.topic: 7 is not text"),  # type: ignore[arg-type]
        (m.Subscribe(1, "a", "", "x" * 4_097), r"Subscribe\.where: .* at most 4,?096"),
        (m.Subscribe(1, "a", "", "", {"depth_max": {}}), "under 'depth_max'"),
        (m.SubscriptionList(1, "", 0), r"SubscriptionList\.limit: 0 is not an integer from 1 to"),
        (m.SubscriptionList(1, "", 1_001), r"SubscriptionList\.limit: 1001 is not"),
        (m.TopicDelete(1, "a", 1), r"TopicDelete\.retained: "),  # type: ignore[arg-type]
        (m.TopicLacks(1, b"u" * 73), r"TopicLacks\.uid: "),
        (m.RepublishList(1, [7]), r"RepublishList\.after: "),
        (m.RepublishList(1, [7, 2**32]), r"RepublishList\.after: "),
        (m.Republish(1, subscriptions=["a"] * 1_001), r"Republish\.subscriptions: "),
        (m.Republish(1, rate=2**32), r"Republish\.rate: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, tuple) else "",
)
def test_field_out_of_range_is_refused_with_its_name(message: Any, why: str) -> None:
    with pytest.raises(FieldInvalid, match=why):
        layout.parse(list(layout.to_array(message)))


def test_place_in_the_list_of_parked_publications_is_accepted_as_it_was_answered() -> None:
    message = m.RepublishList(1, [2**63 - 1, 2**32 - 1])
    assert layout.parse(list(layout.to_array(message))) == message
