"""The right that each request needs, as its declaration in qmgr_protocol.messages says."""

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.operation import Right
from qmgrd.core.sessions.settle_part import Arrived, SettlePart

RIGHTS: dict[type[Arrived], Right] = {
    found.kind: found.request.right for found in OPERATIONS.values() if found.request is not None
}
RIGHTS[SettlePart] = RIGHTS[m.Settle]


def allowed(kind: type[Arrived]) -> bool:
    """Returns whether a peer may send a request of that *kind*: always, without authentication.

    Raises:
        KeyError: a message without a right is a bug.
    """
    return RIGHTS[kind] is not None
