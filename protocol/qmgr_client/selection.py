"""The selection of messages for a get, a consumer or a browse."""

from typing import Literal, TypeAlias, TypedDict, Unpack, get_type_hints

from qmgr_client import option
from qmgr_client.groups.group_id import GroupId, encoded
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid

GroupOrder: TypeAlias = Literal["physical", "logical", "pinned"]
BrowseOrder: TypeAlias = Literal["physical", "logical"]
_OTHERS = ("wait_ms", "lease_ms", "prefetch")  # further options to suggest for a misspelt option
_ORDERS = {"physical": m.PHYSICAL, "logical": m.LOGICAL, "pinned": m.PINNED}


class Selection(TypedDict, total=False):
    """The options that select messages. At most one option may be set.

    Without an option, all messages match.
    """

    where: str | None  # selector, such as "color = 'red' AND JMSPriority > 4"
    correlation_id: bytes
    group_id: GroupId  # 24 bytes or a string


class SelectionOrUid(Selection, total=False):
    """The options of a selection, or the UID of one message."""

    uid: Uid | None


def chosen(
    where: str | None = None,
    correlation_id: bytes = b"",
    group_id: GroupId = b"",
    uid: Uid | None = None,
    **unknown: object,
) -> tuple[str, bytes, bytes, bytes]:
    """Returns a selection in protocol form: selector, correlation id, group id, UID.

    Raises:
        RequestError: SELECTOR_INVALID if the selector is empty. VALUE_INVALID if several options
            are set, if a UID or group id is invalid, or if an option does not exist.
    """
    if unknown:
        raise option.unknown_option_error(
            unknown, [*get_type_hints(SelectionOrUid), *_OTHERS], "this method"
        )
    if where == "":  # In the protocol, "" would match all messages.
        text = "the selector is empty: omit where to match any message"
        raise RequestError(ErrorCode.SELECTOR_INVALID, text)
    where = where or ""
    group = b"" if group_id == b"" else encoded(group_id)
    is_set = [bool(where), bool(correlation_id), bool(group), uid is not None]
    if sum(is_set) > 1:
        text = "several of where, correlation_id, group_id and uid are set: set only one of them"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if uid is None:
        return where, correlation_id, group, b""
    if not isinstance(uid, Uid):
        raise RequestError(ErrorCode.VALUE_INVALID, f"uid is {uid!r}, which is not a Uid")
    return where, correlation_id, group, encode_uid(uid)


def chosen_of_consumer(**selection: Unpack[Selection]) -> tuple[str, bytes, bytes]:
    """Returns the selection of a consumer, which cannot select by UID.

    Raises:
        RequestError: The errors of :func:`chosen`, and VALUE_INVALID if a UID is set.
    """
    where, correlation_id, group_id, uid = chosen(**selection)
    if uid:
        text = "a consumer cannot select by uid: use get(queue, uid=...) for a single message"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return where, correlation_id, group_id


def order_of(word: str, *, pinned: bool = False) -> int:
    """Returns an order of groups in protocol form. *pinned* allows ``"pinned"``.

    Raises:
        RequestError: VALUE_INVALID if the order does not exist.
    """
    order = _ORDERS.get(word) if type(word) is str else None
    if order is None or (order == m.PINNED and not pinned):
        words = "physical, logical or pinned" if pinned else "physical or logical"
        raise RequestError(ErrorCode.VALUE_INVALID, f"the order {word!r} is not {words}")
    return order
