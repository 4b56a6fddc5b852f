"""The requests that only read or that select messages, as qmgr_protocol.messages declares."""

from collections.abc import Callable

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS, Message
from qmgr_protocol.operation import RequestTraits


def _requests(has: Callable[[RequestTraits], bool]) -> frozenset[type[Message]]:
    return frozenset(
        found.kind
        for found in OPERATIONS.values()
        if found.request is not None and has(found.request)
    )


READS = _requests(lambda traits: traits.reads)

# Requests whose answers may be as long as a frame. They wait until there is room for a frame.
LONG = _requests(lambda traits: traits.is_long)

# Requests whose only effect is their answer. They are dropped if their connection closes.
DROPPED = _requests(lambda traits: traits.is_dropped)

# Requests with a selector. With a tuple instead of a set, type checkers know that they have a
# selector field.
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
