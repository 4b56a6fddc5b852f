"""Tests of the queue of audit records: its limits, its age, a full store, and the log."""

import json

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.access.login import Identity
from qmgrd.core.catalogue.system import AUDIT
from qmgrd.core.context.audit_trail import CHANGE, PERIOD_MS, ROUTINE, STRANGER
from qmgrd.core.layout.kv import Store
from qmgrd.core.limits.work import WorkId
from qmgrd.core.returns.audit import DROPPED
from tests.memory_store import MemoryStore
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Manager
from tests.qmgrd.core.recorded import actions, audit_of, stored_audit

KIB = 1_024


def fail_logins(guarded: Guarded, count: int, where: str = "10.0.0.") -> None:
    """Lets *count* logins fail, each at another address."""
    auditor = guarded.manager.turns.broker.auditor
    for number in range(count):
        guarded.manager.turns.intake.event(
            0,
            lambda broker, n=number: auditor.login_refused(  # type: ignore[misc]
                Identity("eve", "scram-sha-256"), f"{where}{n}", "x", ErrorCode.LOGIN_FAILED
            ),
        )
    guarded.manager.turn()


def test_record_is_json_and_has_headers_for_selectors() -> None:
    guarded = Guarded(Manager())
    guarded.owner.ask(m.QueueCreate, "Q", {"depth_max": 5})
    last = records.decode(stored_audit(guarded.manager)[-1])
    body = json.loads(last.body)
    assert body.pop("detail") == {"attributes": {"depth_max": 5}}
    assert last.envelope[records.HEADERS] == body
    assert last.envelope[records.CONTENT_TYPE] == "application/json"
    assert body == {
        "action": "QueueCreate",
        "user": "",
        "method": "owner of the daemon",
        "address": "",
        "client": "owner",
        "kind": "queue",
        "object": "Q",
        "result": "OK",
        "connection": 1,
        "count": 1,
        "manager": "QM1",
        "since_us": 0,
    }
    found = guarded.owner.ask(m.Browse, AUDIT, None, 10, 1 << 20, "object = 'Q'")
    assert len(found["items"]) == 1


@pytest.mark.parametrize("is_logged", [True, False])
def test_record_is_a_line_of_the_log_once_it_is_durable(is_logged: bool) -> None:
    guarded = Guarded(Manager(audit={"log": is_logged}))
    guarded.owner.ask(m.RoleCreate, "putter")
    lines = [x for x in guarded.manager.last.notes if x.event == "audit"]
    assert [x.facts["action"] for x in lines] == ["RoleCreate"] * is_logged
    assert all(x.level == "info" for x in lines)


def test_log_may_leave_out_only_refused_logins() -> None:
    guarded = Guarded(Manager())
    guarded.owner.ask(m.RoleCreate, "putter")
    (change,) = [x for x in guarded.manager.last.notes if x.event == "audit"]
    assert not change.is_limited
    fail_logins(guarded, 1, "10.0.0.")
    (refused,) = [x for x in guarded.manager.last.notes if x.event == "audit"]
    assert refused.is_limited


def test_routine_records_make_room_before_records_of_changes() -> None:
    guarded = Guarded(Manager(audit={"bytes_max": 64 * KIB}))
    guarded.owner.ask(m.QueueCreate, "Q")
    for batch in range(10):
        fail_logins(guarded, 100, f"10.0.{batch}.")
        guarded.manager.turn(PERIOD_MS)
    show = guarded.owner.show(AUDIT)
    assert show["bytes"] <= 64 * KIB
    assert show["purged"] > 500
    assert "QueueCreate" in actions(guarded.manager)
    assert "UserCreate" in actions(guarded.manager)


def test_strangers_push_out_only_records_of_strangers() -> None:
    guarded = Guarded(Manager(audit={"bytes_max": 128 * KIB}))
    guarded.user("bob").code_of(m.QueueShow, "Q")
    for batch in range(10):
        fail_logins(guarded, 100, f"10.0.{batch}.")
        guarded.manager.turn(PERIOD_MS)
    assert guarded.owner.show(AUDIT)["purged"] > 500
    assert actions(guarded.manager, user="bob") == ["Login", "QueueShow"]


def of_users(manager: Manager) -> int:
    """Returns the number of stored records that strangers did not cause."""
    return sum(found["result"] != "LOGIN_FAILED" for found in audit_of(manager))


def test_strangers_of_one_turn_push_out_few_records_of_users() -> None:
    guarded = Guarded(Manager(audit={"bytes_max": 64 * KIB}))
    for number in range(300):
        guarded.owner.ask(m.QueueCreate, f"Q{number}")
    before = of_users(guarded.manager)
    fail_logins(guarded, 90)
    stored = audit_of(guarded.manager)
    assert 0 < before - of_users(guarded.manager) <= 3
    assert len(stored) - of_users(guarded.manager) > 0


def test_strangers_replace_no_records_of_users_in_a_full_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guarded = Guarded(Manager())
    for number in range(100):
        guarded.owner.ask(m.QueueCreate, f"Q{number}")
    fail_logins(guarded, 3)
    before = of_users(guarded.manager)
    fill(guarded.manager, monkeypatch)
    fail_logins(guarded, 90, "10.0.1.")
    assert of_users(guarded.manager) == before
    failed = [x["address"] for x in audit_of(guarded.manager) if x["result"] == "LOGIN_FAILED"]
    assert failed == ["10.0.1.0", "10.0.1.1", "10.0.1.2"]


def test_strangers_push_out_no_user_by_the_records_of_dropped_ones() -> None:
    guarded = Guarded(Manager(audit={"bytes_max": 128 * KIB}))
    guarded.user("bob")
    fail_logins(guarded, 100)
    for _ in range(400):
        guarded.manager.turns.broker.context.audit.drop(1)
        fail_logins(guarded, 1)
        guarded.manager.turn(PERIOD_MS)
    assert DROPPED in actions(guarded.manager)
    assert actions(guarded.manager, user="bob") == ["Login"]


def test_records_of_changes_make_room_when_no_others_are_left() -> None:
    guarded = Guarded(Manager(audit={"bytes_max": 64 * KIB}))
    for number in range(300):
        guarded.owner.ask(m.QueueCreate, f"Q{number}")
    found = actions(guarded.manager, kind="queue")
    assert 50 < len(found) < 300
    assert guarded.owner.show(AUDIT)["bytes"] <= 64 * KIB
    assert audit_of(guarded.manager)[-1]["object"] == "Q299"


def test_dropped_records_are_counted_in_a_record() -> None:
    guarded = Guarded(Manager(audit={"bytes_max": 64 * KIB}))
    for batch in range(3):
        fail_logins(guarded, 100, f"10.0.{batch}.")
        guarded.manager.turn(PERIOD_MS)
    guarded.manager.turn(PERIOD_MS)
    fail_logins(guarded, 1)
    guarded.manager.turn(PERIOD_MS)
    counted = [x["count"] for x in audit_of(guarded.manager) if x["action"] == DROPPED]
    assert counted
    assert sum(counted) <= guarded.owner.show(AUDIT)["purged"] <= sum(counted) + 5


def test_old_records_leave() -> None:
    guarded = Guarded(Manager(audit={"age_max_ms": 3_600_000}))
    guarded.owner.ask(m.QueueCreate, "OLD")
    guarded.manager.turn(2 * 3_600_000)
    guarded.owner.ask(m.QueueCreate, "NEW")
    assert actions(guarded.manager) == ["QueueCreate"]
    assert audit_of(guarded.manager)[0]["object"] == "NEW"


def test_old_records_leave_even_if_nothing_is_recorded() -> None:
    guarded = Guarded(Manager(audit={"age_max_ms": 60_000}))
    guarded.manager.turn(3_600_000)
    guarded.manager.rest()
    assert actions(guarded.manager) == []


def test_records_survive_a_crash_with_their_change() -> None:
    guarded = Guarded(Manager())
    guarded.owner.ask(m.QueueCreate, "Q")
    before = audit_of(guarded.manager)
    guarded.manager.crash()
    assert audit_of(guarded.manager) == before


def test_counts_are_stored_at_a_clean_stop() -> None:
    guarded = Guarded(Manager())
    for _ in range(3):
        fail_logins(guarded, 1)
    guarded.manager.restart()
    failed = [x["count"] for x in audit_of(guarded.manager) if x["result"] == "LOGIN_FAILED"]
    assert failed == [1, 2]


def test_record_replaces_an_old_one_in_a_full_store(monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = Guarded(Manager())
    guarded.owner.ask(m.RoleCreate, "putter")
    fail_logins(guarded, 3)
    count = guarded.owner.show(AUDIT)["depth"]
    fill(guarded.manager, monkeypatch)
    guarded.owner.ask(m.RoleDelete, "putter")
    assert guarded.owner.show(AUDIT)["depth"] == count
    assert actions(guarded.manager)[-1] == "RoleDelete"
    assert "RoleCreate" in actions(guarded.manager)


def test_work_goes_on_if_a_full_store_has_no_old_record(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(audit={"record": "always"})
    fill(manager, monkeypatch)
    owner = manager.connect("owner")
    assert owner.code_of(m.RoleDelete, "NONE") is ErrorCode.ROLE_UNKNOWN
    assert manager.turns.broker.context.audit.dropped == 2
    assert actions(manager) == []


def fill(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the store appear full, even for requests of operators."""
    broker = manager.turns.broker
    divide = broker._room.divide

    def divided(store: Store) -> int:
        map_bytes = divide(store)
        broker.context.store_full = broker.context.operators_full = "full"
        return map_bytes

    monkeypatch.setattr(broker._room, "divide", divided)


def test_audit_that_is_set_aside_stops_no_work() -> None:
    guarded = Guarded(Manager())
    broker = guarded.manager.turns.broker
    broker.context.aside.works[WorkId("audit")] = 1
    guarded.owner.ask(m.QueueCreate, "Q")
    assert "QueueCreate" not in actions(guarded.manager)
    assert broker.context.audit.dropped == 1
    lines = [x.facts["action"] for x in guarded.manager.last.notes if x.event == "audit"]
    assert lines == []


def test_priorities_tell_changes_from_routine_and_strangers() -> None:
    guarded = Guarded(Manager())
    guarded.user("bob").code_of(m.QueueShow, "Q")
    fail_logins(guarded, 1)
    first, *_, refused, last = map(records.decode, stored_audit(guarded.manager))
    assert (first.priority, refused.priority, last.priority) == (CHANGE, ROUTINE, STRANGER)


def test_audit_of_an_old_store_begins_with_its_first_record() -> None:
    store = MemoryStore()
    guarded = Guarded(Manager(store, audit={"record": "never"}))
    guarded.manager.restart()
    assert audit_of(guarded.manager) == []
    later = Manager(store)
    later.connect("owner").ask(m.QueueCreate, "Q")
    assert actions(later, kind="queue") == ["QueueCreate"]
