"""The id of a group as callers give it: 24 bytes, or a text as ``qmctl`` takes it."""

from typing import TypeAlias

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import parsed
from qmgr_protocol.record import GROUP_ID_BYTES

GroupId: TypeAlias = bytes | str

SHOWN_MAX = 80  # characters of what is refused


def encoded(group_id: GroupId) -> bytes:
    """Return the 24 bytes that *group_id* is.

    A text has zero bytes behind it, up to 24; one of 48 hexadecimal digits is the bytes that they
    are.

    Raises:
        RequestError: VALUE_INVALID.
    """
    if type(group_id) is bytes and len(group_id) == GROUP_ID_BYTES:
        return group_id
    if isinstance(group_id, str):
        try:
            return parsed(group_id)
        except ValueError as error:
            why = str(error)
    elif isinstance(group_id, bytes):
        why = f"{len(group_id)} bytes, not {GROUP_ID_BYTES}: give a text where that is what it is"
    else:
        why = f"of type {type(group_id).__name__}: give {GROUP_ID_BYTES} bytes, or a text"
    text = f"the group id {repr(group_id)[:SHOWN_MAX]} is {why}"
    raise RequestError(ErrorCode.VALUE_INVALID, text)
