"""The status message of a group that is put or read over several units of work.

Each unit replaces it, the last one removes it: so it says what is committed, and no more.
"""

import json
from typing import NamedTuple

from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import CORRELATION_MAX_BYTES, GROUP_ID_BYTES, GROUP_NUMBER_MAX

CONTENT_TYPE = "application/json"


class GroupStatus(NamedTuple):
    """How far a group has come."""

    group_id: bytes
    number: int  # of the last message that is done


def key_of(name: str) -> bytes:
    """Return the correlation id under which the status message of *name* lies.

    Raises:
        RequestError: VALUE_INVALID.
    """
    key = name.encode(errors="replace") if isinstance(name, str) else b""
    if not 0 < len(key) <= CORRELATION_MAX_BYTES:
        text = f"the name {name!r} of a status is not 1 to {CORRELATION_MAX_BYTES} bytes of text"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return key


def outgoing(status: GroupStatus, key: bytes) -> Outgoing:
    """Return the status message."""
    body = json.dumps({"group": status.group_id.hex(), "number": status.number}).encode()
    return Outgoing(body, correlation_id=key, content_type=CONTENT_TYPE)


def read(message: Message) -> GroupStatus:
    """Return what a status message says.

    Raises:
        RequestError: VALUE_INVALID, it is none.
    """
    try:
        value = json.loads(message.body)
        status = GroupStatus(bytes.fromhex(value["group"]), value["number"])
        sound = type(status.number) is int and 0 < status.number <= GROUP_NUMBER_MAX
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound or len(status.group_id) != GROUP_ID_BYTES:
        text = (
            f"the message {message.uid} on {message.queue} is no status of a group: give the "
            "status a queue, or a name, of its own"
        )
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return status
