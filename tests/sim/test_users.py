"""Tests that users do only what their rights allow, and that the law finds planted bugs."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgrd.core import broker
from qmgrd.core.access.access import Access
from qmgrd.core.arrivals.delayed_puts import DelayedPuts
from qmgrd.core.context.audit_trail import AuditRecord, AuditTrail
from qmgrd.core.context.context import Context
from qmgrd.core.jobs import owner
from qmgrd.core.layout.owner import name_of
from qmgrd.core.limits.user_unread import UserUnread
from qmgrd.core.requests.audited import AUDITED
from qmgrd.core.requests.revocations import Revocations
from qmgrd.core.requests.rights import Guard
from qmgrd.core.requests.user_sessions import UserSessions
from qmgrd.core.returns.audit import put_audit
from qmgrd.core.sessions.producer_puts import ProducerPuts
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.units import Units
from tests.sim.broken import Patch
from tests.sim.ledger import Violated
from tests.sim.run import BESIEGED_EVERY, GUARDED_EVERY, world_of
from tests.sim.world import World

SEEDS = 12
STEPS = 300


def law(seed: int) -> str:
    """Returns the invariant that a seed breaks, or ""."""
    world = World(seed, steps=STEPS)
    world.is_guarded = True
    try:
        world.run()
    except Violated as violated:
        return violated.law
    return ""


def assert_caught(by: str = "let_in_nothing") -> None:
    assert any(law(seed) == by for seed in range(SEEDS))


def test_worlds_with_users_have_no_hostile_clients() -> None:
    worlds = [world_of(seed) for seed in range(GUARDED_EVERY * BESIEGED_EVERY)]
    assert any(world.is_guarded for world in worlds)
    assert not any(world.is_guarded and world.is_besieged for world in worlds)


@pytest.mark.parametrize(
    "seed", [3, 9, pytest.param(15, marks=pytest.mark.long), 27]
)  # worlds, a world of topics, and nets
def test_users_do_only_what_their_rights_allow(seed: int) -> None:
    world = world_of(seed, 1_000)
    assert world.is_guarded
    world.run()
    for feature in (
        "users put",
        "users get",
        "users with a rate put",
        "audit GrantCreate OK",
        "audit Get NOT_AUTHORIZED",
    ):
        assert world.watch.happened[feature] > 0, feature


def test_consumer_that_outlives_its_right_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Revocations, "run", lambda self, sessions: None)
    assert_caught()


def test_job_that_outlives_its_right_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(owner, "refusal", lambda rights, job: None)
    assert_caught()


@pytest.mark.long
def test_commit_that_outlives_its_right_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Units, "_check_rights", lambda self, *unit: None)
    assert_caught()


def test_remembered_decision_that_outlives_its_right_is_found(monkeypatch: Patch) -> None:
    grant = Access.grant

    def forgetful(self: Access, *args: object, **options: object) -> None:
        allowed = set(self.allowed)
        grant(self, *args, **options)  # type: ignore[arg-type]
        self.allowed |= allowed

    monkeypatch.setattr(Access, "grant", forgetful)
    assert_caught()


def test_put_that_is_not_checked_is_found(monkeypatch: Patch) -> None:
    check = Guard.check

    def unless_put(self: Guard, session: object, message: object) -> None:
        if type(message) is not m.Put:
            check(self, session, message)  # type: ignore[arg-type]

    monkeypatch.setattr(Guard, "check", unless_put)
    assert_caught()


def test_put_above_a_rate_that_is_not_delayed_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(DelayedPuts, "delays", lambda self, pending, arrival: False)
    assert_caught("keeps_limits")


def test_connection_above_the_limit_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(UserSessions, "admits", lambda self, access, connection: True)
    assert_caught("keeps_limits")


@pytest.mark.long
def test_consumer_above_the_limit_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Session, "check_consumers", lambda self: None)
    assert_caught("keeps_limits")


@pytest.mark.long
def test_delivery_above_the_limit_of_unread_bytes_is_found(monkeypatch: Patch) -> None:
    count = UserUnread.count

    def lax(self: UserUnread, *arguments: Any) -> bool:
        count(self, *arguments)
        self.is_full = False
        return False

    monkeypatch.setattr(UserUnread, "count", lax)
    assert_caught("keeps_limits")


def test_accepted_put_that_is_not_stored_is_found(monkeypatch: Patch) -> None:
    put = ProducerPuts.put

    def unless_of_bob(self: ProducerPuts, *fields: Any) -> None:
        if name_of(fields[2].user) != "bob":
            put(self, *fields)

    monkeypatch.setattr(ProducerPuts, "put", unless_of_bob)
    assert_caught("keeps_limits")


def test_request_that_is_not_recorded_is_found(monkeypatch: Patch) -> None:
    monkeypatch.setattr(broker, "AUDITED", AUDITED - {m.GrantDelete})
    assert_caught("recorded_once")


def test_request_that_is_recorded_twice_is_found(monkeypatch: Patch) -> None:
    def twice(self: AuditTrail, record: AuditRecord) -> None:
        self.pending += [record, record]

    monkeypatch.setattr(AuditTrail, "record", twice)
    assert_caught("recorded_once")


def test_record_of_a_later_turn_is_found(monkeypatch: Patch) -> None:
    put, late = put_audit, list[AuditRecord]()

    def later(context: Context, *others: object) -> None:
        trail = context.audit
        trail.pending, late[:] = list(late), trail.pending
        put(context, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(broker, "put_audit", later)
    assert_caught("recorded_once")


def test_job_whose_end_is_not_recorded_is_found(monkeypatch: Patch) -> None:
    record = AuditTrail.record

    def unless_end(self: AuditTrail, found: AuditRecord) -> None:
        if found.action != "JobEnd":
            record(self, found)

    monkeypatch.setattr(AuditTrail, "record", unless_end)
    assert_caught("recorded_once")
