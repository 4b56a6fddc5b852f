"""Tests of the records that wait for the end of a turn, and of the counts of repeated ones."""

from dataclasses import replace

import pytest

from qmgrd.core.context import audit_trail
from qmgrd.core.context.audit_trail import (
    CHANGE,
    CHANGES_EACH_MAX,
    OTHERS,
    PERIOD_MS,
    ROUTINE,
    STRANGER,
    STRANGERS_EACH_MAX,
    STRANGERS_MAX,
    SUBJECTS_EACH_MAX,
    SUBJECTS_MAX,
    AuditRecord,
    AuditTrail,
    shortened,
)
from qmgrd.core.layout.kv import Now

LOGIN = AuditRecord("Login", "bob", "scram-sha-256", "10.0.0.1", result="LOGIN_FAILED")


@pytest.fixture
def trail() -> AuditTrail:
    trail = AuditTrail()
    trail.is_on = True
    return trail


def now(ms: int) -> Now:
    return Now(ms, ms * 1_000)


def test_nothing_is_recorded_while_the_audit_is_off(trail: AuditTrail) -> None:
    trail.is_on = False
    trail.record(LOGIN)
    trail.record_few(LOGIN, now(1))
    trail.count(LOGIN, now(1))
    assert (trail.pending, trail.due_ms) == ([], None)


def test_equal_ones_have_one_record_at_once_and_one_for_all_others(trail: AuditTrail) -> None:
    for ms in (5, 6, 7):
        trail.count(replace(LOGIN, connection=ms, client=f"client{ms}"), now(ms))
    assert [x.connection for x in trail.pending] == [5]
    assert trail.due_ms == 5 + PERIOD_MS
    trail.pending.clear()
    trail.sum_up()
    (rest,) = trail.pending
    assert (rest.count, rest.since_us, rest.connection, rest.user) == (2, 5_000, 0, "bob")
    assert rest.priority == ROUTINE
    assert trail.due_ms is None


def test_one_that_did_not_occur_again_has_one_record(trail: AuditTrail) -> None:
    trail.count(LOGIN, now(1))
    trail.pending.clear()
    trail.sum_up()
    assert trail.pending == []
    trail.count(LOGIN, now(2))
    assert len(trail.pending) == 1


@pytest.mark.parametrize(
    "other", [{"user": "eve"}, {"address": "10.0.0.2"}, {"result": "OK"}, {"object": "Q"}], ids=str
)
def test_different_ones_have_their_own_records(trail: AuditTrail, other: dict[str, str]) -> None:
    trail.count(LOGIN, now(1))
    trail.count(replace(LOGIN, **other), now(1))  # type: ignore[arg-type]
    assert len(trail.pending) == 2


def test_user_with_too_many_subjects_gets_one_for_the_others(trail: AuditTrail) -> None:
    for number in range(SUBJECTS_EACH_MAX + 100):
        trail.count(replace(LOGIN, action="Get", object=f"Q{number}"), now(1))
    assert len(trail.pending) == SUBJECTS_EACH_MAX + 1
    assert trail.pending[-1].object == OTHERS
    assert trail.pending[-1].user == "bob"
    trail.count(replace(LOGIN, action="Get", user="eve", object="Q"), now(1))
    assert trail.pending[-1].object == "Q", "another user still has its own records"
    trail.pending.clear()
    trail.sum_up()
    assert [x.count for x in trail.pending] == [99]


def test_refusals_above_the_limit_are_counted_without_a_copy(
    trail: AuditTrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [replace(LOGIN, object=f"Q{number}") for number in range(2 * SUBJECTS_EACH_MAX)]
    for refused in refusals[: SUBJECTS_EACH_MAX + 1]:
        trail.count(refused, now(1))
    monkeypatch.setattr(audit_trail, "replace", None)
    for refused in refusals[SUBJECTS_EACH_MAX + 1 :]:
        trail.count(refused, now(1))
    assert len(trail.pending) == SUBJECTS_EACH_MAX + 1


def test_user_has_no_more_records_from_many_addresses(trail: AuditTrail) -> None:
    for number in range(2 * SUBJECTS_MAX):
        trail.count(replace(LOGIN, address=f"10.1.{number}", object=f"Q{number}"), now(1))
    assert len(trail.pending) == SUBJECTS_EACH_MAX + 1
    others = trail.pending[-1]
    assert (others.user, others.address, others.object) == ("bob", OTHERS, OTHERS)


def test_users_are_named_even_if_there_are_too_many_subjects(trail: AuditTrail) -> None:
    users = 2 * SUBJECTS_MAX // SUBJECTS_EACH_MAX
    for number in range(users * SUBJECTS_EACH_MAX):
        trail.count(replace(LOGIN, user=f"u{number % users}", object=f"Q{number}"), now(1))
    assert len(trail.pending) == SUBJECTS_MAX + users
    trail.count(replace(LOGIN, user="admin", action="Browse"), now(1))
    assert (trail.pending[-1].user, trail.pending[-1].action) == ("admin", "Browse")
    trail.sum_up()
    assert {x.user for x in trail.pending if x.object == OTHERS} == {
        *(f"u{number}" for number in range(users)),
        "admin",
    }


def test_changes_of_applications_are_counted_when_there_are_too_many(trail: AuditTrail) -> None:
    change = AuditRecord("Subscribe", "app", kind="subscription", object="S")
    for _ in range(CHANGES_EACH_MAX + 100):
        trail.record_few(change, now(1))
    first, counted = trail.pending[:CHANGES_EACH_MAX], trail.pending[CHANGES_EACH_MAX:]
    assert {x.priority for x in first} == {CHANGE}
    assert [x.priority for x in counted] == [ROUTINE]
    trail.record_few(replace(change, user="other"), now(1))
    assert trail.pending[-1].priority == CHANGE
    trail.pending.clear()
    trail.sum_up()
    assert [(x.count, x.priority) for x in trail.pending] == [(99, ROUTINE)]
    trail.record_few(change, now(2))
    assert trail.pending[-1].priority == CHANGE, "a new period has begun"


def test_refused_logins_leave_the_records_of_users_alone(trail: AuditTrail) -> None:
    for number in range(10 * SUBJECTS_MAX):
        refused = replace(LOGIN, user=f"u{number}", address=f"10.1.{number}", priority=STRANGER)
        trail.count(refused, now(1))
    assert len(trail.pending) == STRANGERS_MAX + 1
    trail.pending.clear()
    for number in range(SUBJECTS_MAX):
        trail.count(AuditRecord("Get", f"admin{number}", object="ORDERS"), now(1))
    assert {x.object for x in trail.pending} == {"ORDERS"}
    trail.pending.clear()
    trail.sum_up()
    assert [(x.user, x.address) for x in trail.pending] == [(OTHERS, OTHERS)]


def test_refused_logins_of_one_address_have_its_address_when_there_are_too_many(
    trail: AuditTrail,
) -> None:
    for number in range(STRANGERS_MAX):
        trail.count(replace(LOGIN, user=f"u{number}", priority=STRANGER), now(1))
    trail.count(replace(LOGIN, address="10.0.0.2", priority=STRANGER), now(1))
    *own, others, another = trail.pending
    assert len(own) == STRANGERS_EACH_MAX
    assert (others.user, others.address) == (OTHERS, LOGIN.address)
    assert (another.user, another.address) == (LOGIN.user, "10.0.0.2")


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("", ""),
        ("a" * 100, "a" * 100),
        ("a" * 101, "a" * 97 + "..."),
        ("\u6f22" * 33, "\u6f22" * 33),
        ("\u6f22" * 34, "\u6f22" * 32 + "..."),
        ("\ud800", "?"),
    ],
    ids=ascii,
)
def test_texts_are_cut_in_bytes(text: str, short: str) -> None:
    assert shortened(text) == short


def test_changes_are_never_counted_together(trail: AuditTrail) -> None:
    for _ in range(3):
        trail.record(LOGIN)
    assert trail.pending == [LOGIN] * 3
