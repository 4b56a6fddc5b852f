"""The rights that each request needs, as declared in qmgr_protocol.messages."""

from qmgr_protocol import messages as m
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import Need
from qmgrd.core.sessions.settle_part import Arrived, SettlePart

NEEDS: dict[type[Arrived], tuple[Need, ...]] = {
    found.kind: found.request.needs for found in OPERATIONS.values() if found.request is not None
}
NEEDS[SettlePart] = NEEDS[m.Settle]
