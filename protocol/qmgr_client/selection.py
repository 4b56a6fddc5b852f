"""Which messages a get, a consumer or a browse wants."""

from typing import Literal, TypeAlias, TypedDict, Unpack, get_type_hints

from qmgr_client import option
from qmgr_client.groups.group_id import GroupId, encoded
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid

GroupOrder: TypeAlias = Literal["physical", "logical", "pinned"]
BrowseOrder: TypeAlias = Literal["physical", "logical"]
_OTHERS = ("wait_ms", "lease_ms", "prefetch")  # parameters that people misspell
_ORDERS = {"physical": m.PHYSICAL, "logical": m.LOGICAL, "pinned": m.PINNED}


class Selection(TypedDict, total=False):
    """At most one of these; none of them is any message."""

    where: str | None  # a selector, as "color = 'red' AND JMSPriority > 4"; None: any message
    correlation_id: bytes
    group_id: GroupId  # 24 bytes, or a text


class SelectionOrUid(Selection, total=False):
    """The same, or the one message of a UID."""

    uid: Uid | None


def chosen(
    where: str | None = None,
    correlation_id: bytes = b"",
    group_id: GroupId = b"",
    uid: Uid | None = None,
    **unknown: object,
) -> tuple[str, bytes, bytes, bytes]:
    """Return a selection as the protocol has it: selector, correlation id, group id, encoded UID.

    Raises:
        RequestError: SELECTOR_INVALID, an empty one; VALUE_INVALID, two of them are given, or what
            is no UID or id of a group, or an option that does not exist.
    """
    if unknown:
        raise option.unknown(unknown, [*get_type_hints(SelectionOrUid), *_OTHERS], "this method")
    if where == "":  # To the protocol that is any message, seldom to who computed it.
        text = "the selector is empty: leave where out to have any message"
        raise RequestError(ErrorCode.SELECTOR_INVALID, text)
    where = where or ""
    group = b"" if group_id == b"" else encoded(group_id)
    given = [bool(where), bool(correlation_id), bool(group), uid is not None]
    if sum(given) > 1:
        text = "give one of where, correlation_id, group_id and uid: each selects by itself"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if uid is None:
        return where, correlation_id, group, b""
    if not isinstance(uid, Uid):
        raise RequestError(ErrorCode.VALUE_INVALID, f"{uid!r} is not a Uid")
    return where, correlation_id, group, encode_uid(uid)


def chosen_of_consumer(**selection: Unpack[Selection]) -> tuple[str, bytes, bytes]:
    """Return the same for a consumer, which cannot select by UID.

    Raises:
        RequestError: as :func:`chosen`; VALUE_INVALID, a UID.
    """
    where, correlation_id, group_id, uid = chosen(**selection)
    if uid:
        text = "a consumer does not select by uid: get the one message with get(queue, uid=...)"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return where, correlation_id, group_id


def order_of(word: str, *, pinned: bool = False) -> int:
    """Return an order of groups as the protocol has it; *pinned* whether that is one here.

    Raises:
        RequestError: VALUE_INVALID, there is no such order.
    """
    order = _ORDERS.get(word) if type(word) is str else None
    if order is None or (order == m.PINNED and not pinned):
        words = "physical, logical or pinned" if pinned else "physical or logical"
        raise RequestError(ErrorCode.VALUE_INVALID, f"the order {word!r} is not {words}")
    return order
