"""Tests of the form that selections have in the protocol."""

import pytest

from qmgr_client.selection import SelectionOrUid, chosen, order_of
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid

UID = Uid("QM1", 7)


@pytest.mark.parametrize(
    ("selection", "fields"),
    [
        ({}, ("", b"", b"", b"")),
        ({"where": "a = 1"}, ("a = 1", b"", b"", b"")),
        ({"correlation_id": b"c"}, ("", b"c", b"", b"")),
        ({"group_id": b"g" * 24}, ("", b"", b"g" * 24, b"")),
        ({"uid": UID}, ("", b"", b"", encode_uid(UID))),
        ({"where": None}, ("", b"", b"", b"")),
        ({"where": "a = 1", "uid": None}, ("a = 1", b"", b"", b"")),
    ],
)
def test_each_way_to_select(
    selection: SelectionOrUid, fields: tuple[str, bytes, bytes, bytes]
) -> None:
    assert chosen(**selection) == fields


@pytest.mark.parametrize(
    ("selection", "why"),
    [
        ({"where": "a = 1", "uid": UID}, "several of where"),
        ({"correlation_id": b"c", "group_id": b"g" * 24}, "several of where"),
        ({"uid": "QM1.7"}, "is not a Uid"),
        ({"uid": Uid("no name", 7)}, "is not a valid UID"),
    ],
)
def test_ambiguous_or_empty_selection_is_refused(selection: SelectionOrUid, why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        chosen(**selection)
    assert caught.value.code == ErrorCode.VALUE_INVALID


def test_empty_selector_is_refused_and_not_any_message() -> None:
    with pytest.raises(RequestError, match="omit where") as caught:
        chosen(where="")
    assert caught.value.code == ErrorCode.SELECTOR_INVALID


def test_each_order_has_its_number() -> None:
    assert [order_of(word) for word in ("physical", "logical")] == [0, 1]
    assert order_of("pinned", pinned=True) == 2


@pytest.mark.parametrize("word", ["pinned", "", "LOGICAL", 1, None])
def test_invalid_order_is_refused(word: str) -> None:
    with pytest.raises(RequestError, match="is not physical or logical") as caught:
        order_of(word)
    assert caught.value.code == ErrorCode.VALUE_INVALID
