"""The requests that only read or that select messages, as qmgr_protocol.messages declares."""

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

# Requests whose answers may be as long as a frame. They wait until the room suffices for a frame.
LONG = _requests(lambda traits: traits.is_long)

# Requests without an effect other than their answer. They are dropped if their connection closes.
DROPPED = _requests(lambda traits: traits.is_dropped)

# Requests with a selector. A tuple, not a set, lets type checkers know the field of a selector.
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
