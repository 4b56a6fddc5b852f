"""Group ids: 24 bytes, or a string in the syntax of ``qmctl``."""

from typing import TypeAlias

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import parsed
from qmgr_protocol.record import GROUP_ID_BYTES

GroupId: TypeAlias = bytes | str

SHOWN_MAX = 80  # maximum number of characters of an invalid id in errors


def encoded(group_id: GroupId) -> bytes:
    """Returns the 24 bytes of *group_id*.

    A string is padded with zero bytes. A string of 48 hexadecimal digits is decoded instead.

    Raises:
        RequestError: VALUE_INVALID if *group_id* is not a valid group id.
    """
    if type(group_id) is bytes and len(group_id) == GROUP_ID_BYTES:
        return group_id
    if isinstance(group_id, str):
        try:
            return parsed(group_id)
        except ValueError as error:
            problem = str(error)
    elif isinstance(group_id, bytes):
        problem = f"{len(group_id)} bytes, not {GROUP_ID_BYTES}: to use text, pass a str"
    else:
        problem = f"of type {type(group_id).__name__}: pass {GROUP_ID_BYTES} bytes or a str"
    text = f"the group id {repr(group_id)[:SHOWN_MAX]} is {problem}"
    raise RequestError(ErrorCode.VALUE_INVALID, text)
