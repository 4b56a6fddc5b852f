"""Tests of the audit: which requests, logins and refusals are recorded, and that none is secret."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import Audited, Kind, Need, Right, audited
from qmgr_protocol.record import Fields
from qmgrd.core.access.login import OPEN, Identity
from qmgrd.core.context.audit_trail import CHANGES_EACH_MAX, PERIOD_MS, AuditTrail
from qmgrd.core.requests import audited as audited_
from qmgrd.core.requests.audited import AUDITED, HIDDEN, ITEMS_MAX, NEEDS, details
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.core.recorded import actions, audit_of, stored_audit
from tests.qmgrd.core.requests.test_rights_matrix import SAMPLES, Copy, Sample, make_world

RECORDED = {"record": "users"}
FREQUENT = [m.Put, m.UnitPut, m.UnitCommit, m.Settle, m.Credit, m.ProducerOpen, m.CommitAsk]
CHANGES = [
    found.kind
    for found in OPERATIONS.values()
    if found.request is not None
    and any(audited(need.right) is Audited.EACH for need in found.request.needs)
]


@pytest.fixture(scope="module")
def world() -> dict[bytes, bytes]:
    return dict(make_world().store.rows)


@pytest.fixture
def guarded() -> Guarded:
    return Guarded(Manager())


def recorded(world: dict[bytes, bytes], sample: Sample, user: str = "admin") -> Copy:
    return Copy(world, audit=RECORDED).connect(sample, user)


def of(copy: Copy, sample: Sample) -> list[dict[str, Any]]:
    action = type(sample.message).__name__
    return [found for found in audit_of(copy.manager) if found["action"] == action]


# -- which requests are recorded follows from their rights


def test_every_right_has_a_decision_and_new_ones_are_recorded() -> None:
    assert {right for right in Right if audited(right) is Audited.NO} == {
        Right.CONNECT,
        Right.PUT,
        Right.PUBLISH,
        Right.SUBSCRIBE,
        Right.SHOW,
        Right.LINK,
        Right.FETCH,
    }
    for right in (Right.ADMIN, Right.CREATE, Right.ALTER, Right.DELETE, Right.PURGE, Right.MOVE):
        assert audited(right) is Audited.EACH


@pytest.mark.parametrize("kind", FREQUENT)
def test_frequent_request_is_not_recorded(kind: type[Any]) -> None:
    assert kind not in AUDITED


@pytest.mark.parametrize("kind", CHANGES)
def test_request_that_changes_definitions_is_recorded(kind: type[Any]) -> None:
    assert kind in AUDITED


@pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{type(x.message).__name__}{i}" for i, x in enumerate(SAMPLES)]
)
def test_request_has_one_record_if_it_needs_a_recorded_right(
    world: dict[bytes, bytes], sample: Sample
) -> None:
    """An administrator sends each request. The oracle reads the declarations on its own."""
    copy = recorded(world, sample)
    heard = copy.send(sample.message)
    found, kind = of(copy, sample), type(sample.message)
    wanted = 0
    operation = next(x for x in OPERATIONS.values() if x.kind is kind)
    assert operation.request is not None
    for need in operation.request.needs:
        if need.field == "*" or (need.when and not getattr(sample.message, need.when)):
            continue
        if need.right.value in ("get", "browse", "history", "export") or need.right.value not in (
            ["connect", "put", "publish", "subscribe", "show", "link", "fetch"]
        ):
            wanted = 1
    assert len(found) == wanted, heard
    for one in found:
        assert (one["user"], one["method"], one["count"]) == ("admin", "scram-sha-256", 1)
        assert one["kind"]
        refused = [x for x in heard if isinstance(x, tuple) and x[0] == "Error"]
        assert (one["result"] == "OK") == (not refused), heard


@pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{type(x.message).__name__}{i}" for i, x in enumerate(SAMPLES)]
)
def test_request_without_its_rights_has_one_record_of_the_refusal(
    world: dict[bytes, bytes], sample: Sample
) -> None:
    copy = recorded(world, sample, "other")
    before = [x for x in audit_of(copy.manager) if x["result"] == "NOT_AUTHORIZED"]
    heard = copy.send(sample.message)
    found = [x for x in audit_of(copy.manager) if x["result"] == "NOT_AUTHORIZED"][len(before) :]
    codes = {"NOT_AUTHORIZED", "QUEUE_UNKNOWN", "SUBSCRIPTION_UNKNOWN", "LINK_UNKNOWN"}
    needs = NEEDS_OF[type(sample.message)]
    is_refused = any(need.right is not Right.CONNECT and need.field != "*" for need in needs)
    assert [x["user"] for x in found] == ["other"] * is_refused, (heard, codes)
    assert all(x["detail"] == {} for x in found)


NEEDS_OF: dict[type[Any], tuple[Need, ...]] = {
    found.kind: found.request.needs for found in OPERATIONS.values() if found.request is not None
}


def test_requirement_is_found_if_its_right_is_left_out(
    world: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted bugs: a request that is not recorded, and one that is recorded twice."""
    sample = next(x for x in SAMPLES if type(x.message) is m.QueueDelete)
    monkeypatch.setattr("qmgrd.core.broker.AUDITED", AUDITED - {m.QueueDelete})
    with pytest.raises(AssertionError):
        test_request_has_one_record_if_it_needs_a_recorded_right(world, sample)
    monkeypatch.undo()
    record_ = AuditTrail.record
    monkeypatch.setattr(
        AuditTrail, "record", lambda self, x: (record_(self, x), record_(self, x))[0]
    )
    with pytest.raises(AssertionError):
        test_request_has_one_record_if_it_needs_a_recorded_right(world, sample)


# -- who reads messages


def test_reads_are_recorded_only_for_operators(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "Q")
    guarded.owner.put("Q", b"1")
    app = guarded.user("app", "get queue Q", "browse queue Q")
    app.ask(m.Browse, "Q")
    app.get("Q", 1)
    assert not {"Browse", "Get"} & set(actions(guarded.manager))
    admin = guarded.manager.connect("console", user="admin")
    admin.ask(m.Browse, "Q")
    guarded.owner.ask(m.Browse, "Q")
    found = [x for x in audit_of(guarded.manager) if x["action"] == "Browse"]
    assert [(x["user"], x["kind"], x["object"]) for x in found] == [
        ("admin", "queue", "Q"),
        ("", "queue", "Q"),
    ]


def test_administrator_with_a_grant_reads_as_an_application(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "Q")
    guarded.grant("admin", "browse queue Q")
    guarded.manager.connect("console", user="admin").ask(m.Browse, "Q")
    assert "Browse" not in actions(guarded.manager)


def test_repeated_reads_are_counted(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "Q")
    for _ in range(20):
        guarded.owner.ask(m.Browse, "Q")
    guarded.manager.turn(PERIOD_MS)
    found = [x for x in audit_of(guarded.manager) if x["action"] == "Browse"]
    assert [x["count"] for x in found] == [1, 19]
    assert found[1]["since_us"] > 0


def test_application_does_not_push_out_the_changes_of_operators(guarded: Guarded) -> None:
    """Administrators and operators have a record of each change, applications of the first ones."""
    app = guarded.user("app", "create queue TMP.*", "delete queue TMP.*")
    operator = guarded.user("op", "create queue *", "delete queue *")
    for client, name in ((app, "TMP.1"), (operator, "OPS"), (guarded.owner, "ROOT")):
        for _ in range(CHANGES_EACH_MAX):
            client.ask(m.QueueCreate, name)
            client.ask(m.QueueDelete, name)
    found = Counter(
        x["object"] for x in audit_of(guarded.manager) if x["action"].startswith("Queue")
    )
    assert found["OPS"] == found["ROOT"] == 2 * CHANGES_EACH_MAX
    assert found["TMP.1"] == CHANGES_EACH_MAX + 2


# -- when anything is recorded


def test_the_first_user_and_the_last_one_are_recorded() -> None:
    manager = Manager()
    owner = manager.connect("owner")
    owner.ask(m.QueueCreate, "BEFORE")
    assert actions(manager) == []
    Guarded(manager)
    assert actions(manager) == ["UserCreate"]
    owner.ask(m.UserDelete, "admin")
    assert actions(manager)[-1] == "UserDelete"
    owner.ask(m.QueueCreate, "AFTER")
    assert actions(manager)[-1] == "UserDelete"


@pytest.mark.parametrize(("when", "is_recorded"), [("always", True), ("never", False)])
def test_configuration_decides_without_users(when: str, is_recorded: bool) -> None:
    manager = Manager(audit={"record": when})
    app = manager.connect("app", identity=OPEN)
    app.ask(m.QueueCreate, "Q")
    app.put("Q", b"1")
    app.ask(m.Browse, "Q")
    assert actions(manager) == ["QueueCreate", "Login"] * is_recorded or actions(manager) == [
        "Login",
        "QueueCreate",
    ]
    assert bool(actions(manager)) is is_recorded


def test_request_that_changes_nothing_more_is_recorded_as_an_error(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "Q", {"depth_max": 5})
    for _ in range(3):
        assert guarded.owner.code_of(m.QueueCreate, "Q") is ErrorCode.QUEUE_EXISTS
    guarded.manager.turn(PERIOD_MS)
    found = [x for x in audit_of(guarded.manager) if x["action"] == "QueueCreate"]
    assert [(x["result"], x["count"]) for x in found] == [
        ("OK", 1),
        ("QUEUE_EXISTS", 1),
        ("QUEUE_EXISTS", 2),
    ]


# -- logins, jobs and snapshots


def test_sessions_of_users_have_a_login_and_a_logout(guarded: Guarded) -> None:
    app = guarded.user("app")
    app.hang_up()
    guarded.manager.rest()
    assert actions(guarded.manager, user="app") == ["Login", "Logout"]


def test_login_after_its_user_was_deleted_is_a_refused_one(guarded: Guarded) -> None:
    guarded.owner.ask(m.UserCreate, "app", {})
    guarded.manager.turns.broker.opened(
        99, m.Hello("qmgr", 1, 1, "client", "x"), b"s", Identity("gone", "scram-sha-256"), "10.1"
    )
    guarded.manager.turn()
    (found,) = [x for x in audit_of(guarded.manager) if x["user"] == "gone"]
    assert (found["action"], found["result"], found["address"]) == (
        "Login",
        "LOGIN_REQUIRED",
        "10.1",
    )


def test_job_has_a_record_of_its_end_with_its_counts(guarded: Guarded) -> None:
    for name in ("Q", "TARGET"):
        guarded.owner.ask(m.QueueCreate, name)
    guarded.owner.put("Q", b"1", b"2")
    mover = guarded.user("mover", "move queue Q", "put queue TARGET")
    job = mover.ask(m.QueueMove, "Q", "TARGET")["job"]
    guarded.manager.rest()
    found = {x["action"]: x for x in audit_of(guarded.manager)}
    assert found["QueueMove"]["detail"] == {"target": "TARGET"}
    end = found["JobEnd"]
    assert (end["user"], end["object"], end["result"]) == ("mover", "Q", "OK")
    assert end["detail"] == {
        "job": job,
        "kind": "move",
        "examined": 2,
        "done": 2,
        "skipped": 0,
        "stayed": 0,
        "target": "TARGET",
    }


def test_job_whose_right_was_revoked_ends_with_the_refusal(guarded: Guarded) -> None:
    for name in ("Q", "TARGET"):
        guarded.owner.ask(m.QueueCreate, name)
    guarded.owner.put("Q", *[b"1"] * 20)
    mover = guarded.user("mover", "move queue Q", "put queue TARGET")
    mover.ask(m.QueueMove, "Q", "TARGET", "", 0, 1)
    guarded.revoke("mover", "put queue TARGET")
    guarded.manager.turn(2_000)
    guarded.manager.rest()
    assert [x["result"] for x in audit_of(guarded.manager) if x["action"] == "JobEnd"] == [
        "NOT_AUTHORIZED"
    ]


def test_snapshot_has_a_record_of_its_begin_and_of_its_end(guarded: Guarded) -> None:
    guarded.owner.say(m.Snapshot(77, "s3://key:secret@bucket/x"))
    broker = guarded.manager.turns.broker
    guarded.manager.turns.intake.event(0, lambda x: broker.answer_snapshot(1, 77, {}))
    guarded.manager.turn()
    found = {x["action"]: x for x in audit_of(guarded.manager)}
    assert found["Snapshot"]["detail"] == {"directory": "s3://***@bucket/x"}
    assert (found["SnapshotEnd"]["result"], found["SnapshotEnd"]["client"]) == ("OK", "owner")


def test_message_over_a_link_that_is_refused_is_recorded(world: dict[bytes, bytes]) -> None:
    linked = m.LinkOpen(1, b"F" * 16 + bytes(8), 1, 1)
    copy = Copy(world, audit=RECORDED).grant([("link", "peer", "PEER")])
    copy.connect(Sample(m.CommitAsk(1), (linked,)))
    copy.send(m.Put(1, 1, 0, "Q", [record(b"three", uid=("PEER", 7))]))
    (found,) = [x for x in audit_of(copy.manager) if x["result"] == "NOT_AUTHORIZED"]
    assert (found["action"], found["user"], found["object"]) == ("Put", "app", "Q")


# -- details: what a request changed, bounded, and nothing secret


def test_right_that_is_only_reported_is_recorded_with_what_it_lacks() -> None:
    guarded = Guarded(Manager(auth={"mode": "report"}))
    guarded.owner.ask(m.QueueCreate, "Q")
    bob = guarded.user("bob")
    for _ in range(3):
        bob.get("Q")
    bob.ask(m.QueueAlter, "Q", {"depth_max": 10})
    guarded.manager.turn(PERIOD_MS)
    found = [x for x in audit_of(guarded.manager) if x["result"] == "WOULD_REFUSE"]
    assert [(x["action"], x["user"], x["kind"], x["object"], x["count"]) for x in found] == [
        ("Get", "bob", "queue", "Q", 1),
        ("QueueAlter", "bob", "queue", "Q", 1),
        ("Get", "bob", "queue", "Q", 2),
    ]


def test_details_are_bounded() -> None:
    long = "é" * 5_000
    attributes = {f"{number}{long}": [long] * 50 for number in range(50)}
    found = details(m.QueueCreate(1, "Q", attributes), NEEDS[m.QueueCreate])
    assert len(found["attributes"]) == ITEMS_MAX
    assert len(json.dumps(found, ensure_ascii=False).encode()) < 120_000
    found = details(m.LinkCreate(1, "L", {"addresses": [long] * 50}), NEEDS[m.LinkCreate])
    assert found["attributes"]["addresses"][-1] == "and 30 more"


def test_fields_with_their_defaults_are_left_out() -> None:
    assert details(m.QueuePurge(1, "Q"), NEEDS[m.QueuePurge]) == {}
    found = details(m.QueuePurge(1, "Q", "a = 1", 7), NEEDS[m.QueuePurge])
    assert found == {"where": "a = 1", "messages_max": 7}
    assert details(m.LinkAllow(1, "L", b"\1" * 16), NEEDS[m.LinkAllow]) == {"store_id": "01" * 16}


def test_binding_of_a_user_to_a_queue_manager_is_shown() -> None:
    attributes = {"queue_manager": "EWR", "verifier": MARKED_VERIFIER}
    found = details(m.UserCreate(1, "EWR", attributes), NEEDS[m.UserCreate])
    assert found["attributes"] == {"queue_manager": "EWR", "verifier": HIDDEN}


SECRET = b"S3CRETS3CRETS3CRET"
SALT, KEYS = base64.b64encode(SECRET).decode(), base64.b64encode(SECRET + bytes(14)).decode()
MARKED_VERIFIER = f"SCRAM-SHA-256$4096:{SALT}${KEYS}:{KEYS}"
MARKS = (SECRET, SALT.encode(), KEYS.encode(), SECRET.hex().encode(), b"S3CRET")


def marked(message: Any) -> Iterator[Any]:
    """Yields *message* with a secret in each field that may contain one."""
    changes: dict[str, Any] = {}
    body = records.encode(
        Fields(SECRET, correlation_id=SECRET, envelope={records.HEADERS: {"h": SECRET.decode()}})
    )
    if hasattr(message, "records"):
        changes["records"] = [body]
    if hasattr(message, "correlation_id"):
        changes["correlation_id"] = SECRET
    if hasattr(message, "producer_id"):
        changes["producer_id"] = SECRET[:16]
    if hasattr(message, "text"):
        changes |= {"text": SECRET.decode(), "reason": "S3CRET"}
    yield message._replace(**changes)
    if isinstance(message, m.UserCreate | m.UserAlter):
        for key, value in (
            ("verifier", MARKED_VERIFIER),
            ("verifier", SECRET.decode()),
            ("password", SECRET.decode()),
            ("password", [SECRET.decode()]),
            ("password", SECRET),
            ("password", {"x": SECRET.decode()}),
        ):
            yield message._replace(attributes={key: value})
    elif hasattr(message, "attributes"):
        yield message._replace(attributes=message.attributes | {"password": SECRET.decode()})
        yield message._replace(attributes=message.attributes | {"password": SECRET})
    if hasattr(message, "directory"):
        yield message._replace(directory=f"s3://key:{SECRET.decode()}@bucket/x")


def check_no_secret(world: dict[bytes, bytes], sample: Sample) -> None:
    for message in marked(sample.message):
        for user in ("admin", "other"):
            copy = recorded(world, sample, user)
            notes: list[Any] = []
            copy.client.say(message)
            notes += copy.manager.last.notes
            copy.manager.rest()
            notes += copy.manager.last.notes
            copy.manager.turn(PERIOD_MS)
            notes += copy.manager.last.notes
            seen = b"".join(stored_audit(copy.manager)) + repr(notes).encode()
            seen += repr(copy.manager.turns.broker.context.audit.__dict__).encode()
            for mark in MARKS:
                assert mark not in seen, (message, user)


@pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{type(x.message).__name__}{i}" for i, x in enumerate(SAMPLES)]
)
def test_no_secret_reaches_a_record_or_the_log(world: dict[bytes, bytes], sample: Sample) -> None:
    check_no_secret(world, sample)


def test_secret_that_is_not_hidden_is_found(
    world: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = next(x for x in SAMPLES if type(x.message) is m.UserAlter)
    monkeypatch.setattr(audited_, "HIDDEN", HIDDEN)
    monkeypatch.setattr(
        audited_, "_attributes", lambda values, is_of_user: {k: str(v) for k, v in values.items()}
    )
    with pytest.raises(AssertionError):
        check_no_secret(world, sample)


def test_name_of_a_client_cannot_break_a_record(guarded: Guarded) -> None:
    guarded.owner.ask(m.UserCreate, "app", {})
    auditor = guarded.manager.turns.broker.auditor
    identity = Identity("\ud800" + "x" * 5_000, "m" * 5_000)
    guarded.manager.turns.intake.event(
        0,
        lambda _: auditor.login_refused(
            identity, "10.1", "\n" * 999, ErrorCode.LOGIN_FAILED, "é" * 999
        ),
    )
    guarded.manager.turn()
    last = audit_of(guarded.manager)[-1]
    assert len(last["user"]) == len(last["method"]) == len(last["client"]) == 100
    assert last["detail"] == {"why": "é" * 48 + "..."}


def test_kinds_of_objects_are_those_of_grants(world: dict[bytes, bytes]) -> None:
    sample = next(x for x in SAMPLES if type(x.message) is m.QueuePurge and ":" in x.message.queue)
    copy = recorded(world, sample)
    copy.send(sample.message)
    assert [x["kind"] for x in of(copy, sample)] == [Kind.SUBSCRIPTION.value]
