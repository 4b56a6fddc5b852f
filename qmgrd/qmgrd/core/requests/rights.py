"""The right that each request requires, as declared in qmgr_protocol.messages."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.operation import Right
from qmgrd.core.sessions.settle_part import SettlePart

RIGHTS: dict[type[Any], Right] = {
    found.kind: found.request.right for found in OPERATIONS.values() if found.request is not None
}
RIGHTS[SettlePart] = RIGHTS[m.Settle]


def allowed(kind: type[Any]) -> bool:
    """Returns whether a peer may send requests of *kind*. Without authentication, it always may.

    Raises:
        KeyError: The message has no right, which is a bug.
    """
    return RIGHTS[kind] is not None
