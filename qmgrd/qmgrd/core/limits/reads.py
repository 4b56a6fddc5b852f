"""The requests that only read, taken from their declarations in qmgr_protocol.messages."""

from collections.abc import Callable
from typing import Any

from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.operation import RequestTraits, Right


def _requests(has: Callable[[RequestTraits], bool]) -> frozenset[type[Any]]:
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
