"""Requests about users, roles and grants."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.access.login import OPEN
from tests.qmgrd.core.harness import Client, Manager

VERIFIER = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$" + ":".join(["A" * 43 + "="] * 2)
OTHER = VERIFIER.replace("$4096", "$5000")
ADMIN = {"verifier": VERIFIER, "roles": ["administrator"]}


@pytest.fixture
def owner(manager: Manager) -> Client:
    owner = manager.connect("owner")
    owner.ask(m.UserCreate, "admin", ADMIN)
    owner.ask(m.UserCreate, "app", {"verifier": VERIFIER, "roles": ["producer"]})
    return owner


def test_first_user_closes_connections_that_did_not_log_in(manager: Manager) -> None:
    owner, first, second = manager.connect(), *(manager.connect(identity=OPEN) for _ in range(2))
    row = first.ask(m.UserCreate, "admin", ADMIN)  # Its own answer still arrives.
    assert (row["user"], row["roles"], row["enabled"]) == ("admin", ["administrator"], True)
    manager.rest()
    for client in (first, second):
        assert client.goaway is not None
        assert client.goaway.code == ErrorCode.LOGIN_REQUIRED
    assert owner.goaway is None
    owner.ask(m.UserCreate, "app", {})
    late = manager.connect(user="admin")
    owner.ask(m.UserCreate, "third", {})
    assert late.goaway is None


@pytest.mark.parametrize(
    ("kind", "fields", "closes"),
    [
        (m.UserAlter, ({"enabled": False},), True),
        (m.UserAlter, ({"verifier": OTHER},), True),
        (m.UserAlter, ({"verifier": ""},), True),
        (m.UserAlter, ({"roles": []},), False),
        (m.UserAlter, ({"enabled": True, "verifier": VERIFIER},), False),
        (m.UserDelete, (), True),
    ],
)
def test_connections_of_a_user_close_with_its_password(
    owner: Client, kind: Any, fields: tuple[Any, ...], closes: bool
) -> None:
    manager = owner.manager
    mine = [manager.connect(user="app") for _ in range(2)]
    other = manager.connect(user="admin")
    manager.turn()
    row = owner.ask(kind, "app", *fields)
    assert row["connections"] == 2 * closes
    assert [client.goaway is not None for client in (*mine, other)] == [closes, closes, False]


def test_verifier_is_shown_only_on_request(owner: Client) -> None:
    shown = owner.ask(m.UserShow, "app")
    assert VERIFIER not in str(shown)
    assert shown["has_password"]
    assert owner.ask(m.UserShow, "app", True)["verifier"] == VERIFIER
    for value in (
        owner.ask(m.UserList),
        owner.ask(m.UserAlter, "app", {"verifier": OTHER}),
        owner.ask(m.UserDelete, "app"),
    ):
        assert "SCRAM" not in str(value)


def test_changes_are_logged_with_their_author_and_without_verifiers(owner: Client) -> None:
    manager, notes = owner.manager, []
    admin = manager.connect("console", user="admin")
    for message in (
        m.UserCreate(1, "new", {"verifier": VERIFIER}),
        m.UserAlter(2, "new", {"verifier": OTHER}),
        m.RoleCreate(3, "putter"),
        m.GrantCreate(4, "new", "", ["put"], "queue", "Q"),
        m.GrantDelete(5, "new", "", ["put"], "queue", "Q"),
        m.RoleDelete(6, "putter"),
        m.UserDelete(7, "new"),
    ):
        admin.say(message)
        notes += [note for note in manager.last.notes if note.event != "audit"]
    assert [note.event for note in notes] == [
        "user created",
        "user altered",
        "role created",
        "rights granted",
        "rights revoked",
        "role deleted",
        "user deleted",
    ]
    assert all(note.facts["by"] == "admin" for note in notes)
    assert "SCRAM" not in str(notes)


def test_users_are_listed_in_pages(owner: Client) -> None:
    for number in range(5):
        owner.ask(m.UserCreate, f"user{number}", {})
    found, after = [], ""
    while after is not None:
        value = owner.ask(m.UserList, after, 2)
        found += [row["user"] for row in value["users"]]
        after = value["next"]
    assert found == ["admin", "app", *(f"user{number}" for number in range(5))]


def test_roles_are_shown_with_their_grants_and_users(owner: Client) -> None:
    owner.ask(m.RoleCreate, "getter")
    row = owner.ask(m.GrantCreate, "", "getter", ["get", "browse"], "queue", "Q*")
    grants = [["get", "queue", "Q*"], ["browse", "queue", "Q*"]]
    assert row == {"role": "getter", "built_in": False, "grants": grants, "users": 0}
    owner.ask(m.UserAlter, "app", {"roles": ["getter", "producer"]})
    listed = {row["role"]: row for row in owner.ask(m.RoleList)["roles"]}
    assert listed["getter"] == row | {"users": 1}
    assert listed["producer"]["built_in"]
    assert listed["producer"]["users"] == 1
    assert owner.ask(m.RoleShow, "getter") == listed["getter"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("app", "getter", ["put"], "queue", "Q"), "give either a user or a role"),
        (("", "", ["put"], "queue", "Q"), "give either a user or a role"),
        (("app", "", [], "queue", "Q"), "give at least one right"),
        (("app", "", ["put", "fly"], "queue", "Q"), "'fly' is not a right"),
    ],
)
def test_incomplete_grant_is_refused(owner: Client, fields: tuple[Any, ...], why: str) -> None:
    for kind in (m.GrantCreate, m.GrantDelete):
        request_id = owner.next_id()
        (error,) = owner.say(kind(request_id, *fields))
        assert error.code == ErrorCode.VALUE_INVALID
        assert why in error.text
    assert owner.ask(m.UserShow, "app")["grants"] == []


def explain(client: Client, user: str, operation: str, **values: Any) -> list[tuple[Any, ...]]:
    value = client.ask(m.AccessExplain, user, operation, values)
    found = [(x["right"], x["kind"], x["name"], x["allowed"], x["by"]) for x in value["decisions"]]
    assert value["allowed"] == all(allowed for *_, allowed, _ in found)
    return found


def test_explanation_names_each_right_and_the_grant_that_decides(owner: Client) -> None:
    owner.ask(m.QueueCreate, "Q")
    owner.ask(m.QueueCreate, "A", {"alias_of": "Q"})
    owner.ask(m.GrantCreate, "app", "", ["move"], "queue", "Q*")
    assert explain(owner, "app", "QueueMove", queue="A", target="T") == [
        ("move", "queue", "Q", True, "move queue Q*"),
        ("put", "queue", "T", True, "put queue *"),
    ]
    assert explain(owner, "app", "Get", queue="Q") == [("get", "queue", "Q", False, "")]
    assert explain(owner, "admin", "Get", queue="Q") == [
        ("get", "queue", "Q", True, "role administrator")
    ]
    assert explain(owner, "app", "Put", queue="/news") == [
        ("publish", "topic", "news", True, "publish topic #")
    ]
    assert explain(owner, "app", "Status") == [("show", "manager", "", False, "")]
    assert explain(owner, "app", "GroupNew") == []


def test_explanation_of_a_link_names_the_queue_manager_as_which_the_user_acts(
    owner: Client,
) -> None:
    owner.ask(m.GrantCreate, "app", "", ["link"], "peer", "EWR")
    granted = [("link", "peer", "EWR", True, "link peer EWR")]
    assert explain(owner, "app", "LinkOpen", manager="EWR") == granted
    assert explain(owner, "app", "LinkOpen") == [("link", "peer", "app", False, "")]
    owner.ask(m.UserAlter, "app", {"queue_manager": "EWR"})
    assert explain(owner, "app", "LinkOpen") == granted
    code = owner.code_of(m.AccessExplain, "app", "LinkOpen", {"manager": "NYC"})
    assert code == ErrorCode.PEER_USER_WRONG
    assert explain(owner, "app", "LinkAllow", manager="NYC")[0][1] == "link"


def test_explanation_agrees_with_the_daemon_about_a_disabled_user(owner: Client) -> None:
    owner.ask(m.UserAlter, "app", {"enabled": False})
    value = owner.ask(m.AccessExplain, "app", "Put", {"queue": "Q"})
    assert not value["allowed"]
    assert not value["enabled"]


def test_request_that_does_not_exist_cannot_be_explained(owner: Client) -> None:
    for operation in ("Fly", "SettlePart", "Hello", ""):
        assert owner.code_of(m.AccessExplain, "app", operation) == ErrorCode.VALUE_INVALID
    assert owner.code_of(m.AccessExplain, "nobody", "Put") == ErrorCode.USER_UNKNOWN
