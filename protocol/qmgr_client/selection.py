"""Which messages a get, a consumer or a browse wants."""

from typing import TypedDict

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid


class Selection(TypedDict, total=False):
    """At most one of these; none of them is any message."""

    where: str | None  # a selector, as "color = 'red' AND JMSPriority > 4"; None: any message
    correlation_id: bytes
    group_id: bytes  # 24 bytes


class SelectionOrUid(Selection, total=False):
    """The same, or the one message of a UID."""

    uid: Uid | None


def chosen(
    where: str | None = None, correlation_id: bytes = b"", group_id: bytes = b"",
    uid: Uid | None = None,
) -> tuple[str, bytes, bytes, bytes]:  # fmt: skip
    """Return a selection as the protocol has it: selector, correlation id, group id, encoded UID.

    Raises:
        RequestError: SELECTOR_INVALID, an empty one; VALUE_INVALID, two of them are given, or what
            is no UID.
    """
    if where == "":  # To the protocol that is any message, seldom to who computed it.
        text = "the selector is empty: leave where out to have any message"
        raise RequestError(ErrorCode.SELECTOR_INVALID, text)
    where = where or ""
    given = [bool(where), bool(correlation_id), bool(group_id), uid is not None]
    if sum(given) > 1:
        text = "give one of where, correlation_id, group_id and uid: each selects by itself"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if uid is None:
        return where, correlation_id, group_id, b""
    if not isinstance(uid, Uid):
        raise RequestError(ErrorCode.VALUE_INVALID, f"{uid!r} is not a Uid")
    return where, correlation_id, group_id, encode_uid(uid)
