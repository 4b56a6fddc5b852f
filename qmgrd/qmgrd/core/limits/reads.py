"""Requests that only read, or select, as their declarations in qmgr_protocol.messages say."""

from collections.abc import Callable

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS, Message
from qmgr_protocol.operation import RequestTraits, Right


def _requests(has: Callable[[RequestTraits], bool]) -> frozenset[type[Message]]:
    return frozenset(
        found.kind
        for found in OPERATIONS.values()
        if found.request is not None and has(found.request)
    )


READS = _requests(lambda traits: traits.right in (Right.SHOW, Right.BROWSE))

# Their answers may be up to a frame long, so they wait until there is room for that.
LONG = _requests(lambda traits: traits.is_long)

# Once the connection is closed, nobody receives their answers, and they have no other effect.
DROPPED = _requests(lambda traits: traits.is_dropped)

# They have a selector. This is no set, so that type checkers know their field.
SELECTING = (
    m.Get,
    m.Consume,
    m.Browse,
    m.QueuePurge,
    m.QueueMove,
    m.Subscribe,
    m.RepublishList,
    m.Republish,
)
