"""The status message of a group that is half done."""

import pytest

from qmgr_client import group_status
from qmgr_client.group_status import GroupStatus
from qmgr_client.message import NOWHERE, Message
from qmgr_protocol.errors import ErrorCode, RequestError

GROUP = b"g" * 24


def message(body: bytes) -> Message:
    return Message(body, None, 4, b"k", {}, "STATUS", 0, 0, 0, 0, b"", 3, NOWHERE)


def test_what_is_put_is_read() -> None:
    """E25."""
    status = GroupStatus(GROUP, 999_999_999)
    outgoing = group_status.outgoing(status, b"k")
    assert outgoing.correlation_id == b"k"
    assert outgoing.persistent
    assert group_status.read(message(outgoing.body)) == status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"7",
        b"{}",
        b'{"group": "67", "number": 1}',
        b'{"group": 7, "number": 1}',
        b'{"group": "%s", "number": 0}' % GROUP.hex().encode(),
        b'{"group": "%s", "number": true}' % GROUP.hex().encode(),
        b'{"group": "%s", "number": 1000000000}' % GROUP.hex().encode(),
        b"\xff",
    ],
)
def test_what_is_no_status_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError, match="is no status of a group") as caught:
        group_status.read(message(body))
    assert caught.value.code == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize("name", ["", "x" * 65, "ü" * 33, b"x", None])
def test_name_that_fits_no_correlation_id_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="is not 1 to 64 bytes"):
        group_status.key_of(name)


def test_name_is_the_correlation_id() -> None:
    assert group_status.key_of("ü" * 32) == "ü".encode() * 32
