"""What the messages are; how they travel is told in test_layout.py and by the golden vectors."""

from typing import Any

import pytest

from qmgr_protocol import layout
from qmgr_protocol import messages as m


def test_handle_and_delivery_head_have_the_sizes_of_the_protocol() -> None:
    assert m.HANDLE.size == 17
    assert m.DELIVERY_BYTES == 30


def test_delivery_head_starts_with_the_handle() -> None:
    """A client settles by cutting it off."""
    item = m.DELIVERY.pack(9, 17, 5, 2, 1, m.STATE_REDELIVERED, 99)
    assert item[: m.HANDLE.size] == m.HANDLE.pack(9, 17, 5)


def test_states_of_a_delivery_are_bits() -> None:
    assert [m.STATE_REDELIVERED, m.STATE_MAYBE_REDELIVERED, m.STATE_LEASED] == [1, 2, 4]


@pytest.mark.parametrize("kind", layout.NUMBERS, ids=lambda kind: kind.__name__)
def test_request_names_its_request_first(kind: type[Any]) -> None:
    """So that a listener that does not know an operation can refuse it by its id."""
    if "request_id" in kind._fields:
        assert kind._fields[0] == "request_id"


def test_operation_unknown_says_which() -> None:
    unknown = m.OperationUnknown(99, 41)
    assert (str(unknown), unknown.operation, unknown.request_id) == (
        "operation 99 is not known",
        99,
        41,
    )
