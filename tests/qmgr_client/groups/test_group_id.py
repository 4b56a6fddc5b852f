"""Tests of group ids in each form that callers can pass."""

from typing import Any

import pytest

from qmgr_client.aio import Group
from qmgr_client.groups.group_id import encoded
from qmgr_client.outgoing import Outgoing, encode
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError

A = b"A" + bytes(23)


@pytest.mark.parametrize("group_id", [A, "A", A.hex()])
def test_text_is_taken_as_by_qmctl(group_id: bytes | str) -> None:
    assert encoded(group_id) == A
    assert Group(group_id, 1).id == A
    for group in (Group(group_id, 2), (group_id, 2, False)):
        record = encode(Outgoing(b"x", group=group))
        assert records.decode(record).group == (A, 2, False)


@pytest.mark.parametrize(
    ("group_id", "why"),
    [
        (b"A", "the group id b'A' is 1 bytes, not 24: to use text"),
        ("x" * 300, "the group id .{80} is a text of 300 bytes exceeds the limit of 24 bytes"),
        (b"x" * 300, "the group id .{80} is 300 bytes, not 24"),
        ("", "is an empty text"),
        (7, "is of type int: pass 24 bytes or a str"),
    ],
)
def test_invalid_group_id_is_refused(group_id: Any, why: str) -> None:
    for call in (lambda: encoded(group_id), lambda: Group(group_id, 1)):
        with pytest.raises(RequestError, match=why) as caught:
            call()
        assert caught.value.code == ErrorCode.VALUE_INVALID
