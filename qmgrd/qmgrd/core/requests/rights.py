"""The right that each request requires, as declared in qmgr_protocol.messages."""

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.operation import Right
from qmgrd.core.sessions.settle_part import Arrived, SettlePart

RIGHTS: dict[type[Arrived], Right] = {
    found.kind: found.request.right for found in OPERATIONS.values() if found.request is not None
}
RIGHTS[SettlePart] = RIGHTS[m.Settle]


def allowed(kind: type[Arrived]) -> bool:
    """Returns whether a peer may send requests of *kind*. Without authentication, every peer may.

    Raises:
        KeyError: The message has no right, which is a bug.
    """
    return RIGHTS[kind] is not None
