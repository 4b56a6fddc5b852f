"""Tests that no user can take the memory of all units of work."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.core.unit_of_work import UnitOfWork


def test_one_user_cannot_hold_the_memory_of_all_units() -> None:
    """A user may hold as much as it leaves free, however many connections it has."""
    guarded = Guarded(Manager(unit={"connection_bytes_max": 20_000, "held_bytes_max": 40_000}))
    guarded.owner.ask(m.QueueCreate, "Q")
    apps = [guarded.user("shop", "put queue Q")]
    apps += [guarded.manager.connect("shop", user="shop") for _ in range(4)]
    units, full = [UnitOfWork(app) for app in apps], [ErrorCode.UNITS_EXHAUSTED]
    refused = [unit.put_records("Q", record(bytes(4_000))) for unit in units]
    assert refused == [[], [], [], full, full]
    other = UnitOfWork(guarded.user("prod", "put queue Q"))
    other.put("Q", bytes(8_000))
    assert other.put_records("Q", record(bytes(8_000))) == full
    assert units[4].put_records("Q", record(bytes(1_000))) == full
    other.commit()
    for unit in units:
        unit.client.hang_up()
    guarded.manager.rest()
    UnitOfWork(other.client, 2).put("Q", bytes(18_000))
    audit(guarded.manager)
