"""All users and roles: their rights, the limits, and the mark that closes the queue manager."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind, Right
from qmgrd.core.access import users as users_
from qmgrd.core.access.grant import Grant, table_of
from qmgrd.core.access.role import BUILT_IN
from qmgrd.core.access.user import GRANTS_MAX, ROLES_MAX
from qmgrd.core.access.users import Users, peer_grants
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, Manager

VERIFIER = "SCRAM-SHA-256$4096:AAAAAAAAAAAAAAAAAAAAAA==$" + ":".join(["A" * 43 + "="] * 2)
ADMIN = {"verifier": VERIFIER, "roles": ["administrator"]}
PUT_Q = ["put"], "queue", "Q"


@pytest.fixture
def owner(manager: Manager) -> Client:
    owner = manager.connect("owner")
    owner.ask(m.UserCreate, "admin", ADMIN)
    owner.ask(m.UserCreate, "app", {})
    return owner


def users(client: Client) -> Users:
    return client.manager.turns.broker.users


def may(client: Client, right: Right = Right.PUT, name: str = "Q", *, user: str = "app") -> bool:
    return users(client).accesses[user].may(right, Kind.QUEUE, name)


def refused(client: Client, kind: Any, *fields: Any) -> str:
    """Returns the code of the refusal, which changes no user and no role."""
    before = stored(client)
    code = client.code_of(kind, *fields)
    assert stored(client) == before
    return code.name


def stored(client: Client) -> dict[bytes, bytes]:
    """Returns the rows of users and roles, and the mark that users exist."""
    spaces = keys.SPACE_USER, keys.SPACE_ROLE, keys.GUARDED
    return {key: row for key, row in client.manager.store.rows.items() if key.startswith(spaces)}


def test_first_user_must_be_able_to_administer(manager: Manager) -> None:
    owner = manager.connect("owner")
    for attributes in (
        {},
        ADMIN | {"enabled": False},
        ADMIN | {"verifier": ""},
        ADMIN | {"roles": []},
    ):
        assert refused(owner, m.UserCreate, "first", attributes) == "ADMINISTRATOR_REQUIRED"
        assert users(owner).is_open
    owner.ask(m.UserCreate, "first", ADMIN)
    assert not users(owner).is_open


def test_last_administrator_stays(owner: Client) -> None:
    for attributes in ({"enabled": False}, {"verifier": ""}, {"roles": ["operator"]}):
        assert refused(owner, m.UserAlter, "admin", attributes) == "ADMINISTRATOR_REQUIRED"
    assert refused(owner, m.UserDelete, "admin") == "ADMINISTRATOR_REQUIRED"
    owner.ask(m.UserCreate, "second", ADMIN)
    owner.ask(m.UserAlter, "admin", {"enabled": False})
    assert refused(owner, m.UserDelete, "second") == "ADMINISTRATOR_REQUIRED"


def test_deleting_the_last_user_opens_the_queue_manager(owner: Client) -> None:
    owner.ask(m.UserDelete, "app")
    assert not users(owner).is_open
    owner.ask(m.UserDelete, "admin")
    assert users(owner).is_open
    assert rows.find(owner.manager.store, keys.GUARDED) is None
    owner.manager.crash()
    assert users(owner).is_open


@pytest.mark.parametrize("again", ["crash", "restart"])
def test_users_roles_and_rights_survive_a_start(owner: Client, again: str) -> None:
    owner.ask(m.RoleCreate, "putter")
    owner.ask(m.GrantCreate, "", "putter", *PUT_Q)
    owner.ask(m.GrantCreate, "app", "", ["get"], "queue", "R*")
    owner.ask(m.UserAlter, "app", {"roles": ["putter", "monitor"], "verifier": VERIFIER})
    before = users(owner).users, users(owner).roles
    getattr(owner.manager, again)()
    assert (users(owner).users, users(owner).roles) == before
    assert not users(owner).is_open
    assert may(owner)
    assert may(owner, Right.GET, "R1")
    assert may(owner, Right.SHOW, "SYSTEM.EVENTS")
    assert not may(owner, Right.GET, "Q")


def test_user_has_the_rights_of_its_grants_and_roles(owner: Client) -> None:
    owner.ask(m.RoleCreate, "putter")
    owner.ask(m.UserAlter, "app", {"roles": ["putter"]})
    assert not may(owner)
    owner.ask(m.GrantCreate, "", "putter", *PUT_Q)
    assert may(owner)
    owner.ask(m.GrantCreate, "app", "", *PUT_Q)
    owner.ask(m.GrantDelete, "", "putter", *PUT_Q)
    assert may(owner)
    owner.ask(m.GrantDelete, "app", "", *PUT_Q)
    assert not may(owner)
    owner.ask(m.UserAlter, "app", {"roles": ["administrator"]})
    assert may(owner)
    owner.ask(m.UserAlter, "app", {"roles": []})
    assert not may(owner)


def test_user_that_is_disabled_or_deleted_has_no_rights(owner: Client) -> None:
    owner.ask(m.GrantCreate, "app", "", *PUT_Q)
    access = users(owner).accesses["app"]
    for enabled in (False, True):
        owner.ask(m.UserAlter, "app", {"enabled": enabled})
        assert access.may(Right.PUT, Kind.QUEUE, "Q") == enabled
    owner.ask(m.UserAlter, "app", {"roles": ["administrator"]})
    owner.ask(m.UserDelete, "app")
    assert not access.may(Right.PUT, Kind.QUEUE, "Q")
    assert not access.is_administrator


def test_new_user_of_an_old_name_has_none_of_the_old_rights(owner: Client) -> None:
    owner.ask(m.GrantCreate, "app", "", *PUT_Q)
    owner.ask(m.UserDelete, "app")
    owner.ask(m.UserCreate, "app", {})
    assert not may(owner)


def test_peer_may_link_only_as_the_queue_manager_of_its_name(owner: Client) -> None:
    owner.ask(m.UserCreate, "NYC", {"roles": ["peer"]})
    access = users(owner).accesses["NYC"]
    for right in (Right.LINK, Right.FETCH):
        assert access.may(right, Kind.PEER, "NYC")
        assert not access.may(right, Kind.PEER, "FRA")
    assert list(peer_grants("NYC")) == [
        Grant(Right.LINK, Kind.PEER, "NYC"),
        Grant(Right.FETCH, Kind.PEER, "NYC"),
    ]


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        (m.UserCreate, ("app", {}), "USER_EXISTS"),
        (m.UserCreate, ("a b", {}), "NAME_INVALID"),
        (m.UserCreate, ("", {}), "NAME_INVALID"),
        (m.UserCreate, ("new", {"password": "x"}), "VALUE_INVALID"),
        (m.UserCreate, ("new", {"enabled": 1}), "VALUE_INVALID"),
        (m.UserCreate, ("new", {"verifier": "x"}), "VALUE_INVALID"),
        (m.UserCreate, ("new", {"roles": "monitor"}), "VALUE_INVALID"),
        (m.UserCreate, ("new", {"roles": ["pilot"]}), "ROLE_UNKNOWN"),
        (m.UserCreate, ("new", {"roles": [5]}), "ROLE_UNKNOWN"),
        (m.UserAlter, ("nobody", {}), "USER_UNKNOWN"),
        (m.UserAlter, ("app", {"grants": []}), "VALUE_INVALID"),
        (m.UserDelete, ("nobody",), "USER_UNKNOWN"),
        (m.RoleCreate, ("operator",), "ROLE_EXISTS"),
        (m.RoleCreate, ("a b",), "NAME_INVALID"),
        (m.RoleDelete, ("operator",), "ROLE_EXISTS"),
        (m.RoleDelete, ("pilot",), "ROLE_UNKNOWN"),
        (m.GrantCreate, ("", "operator", *PUT_Q), "ROLE_EXISTS"),
        (m.GrantCreate, ("nobody", "", *PUT_Q), "USER_UNKNOWN"),
        (m.GrantDelete, ("app", "", *PUT_Q), "GRANT_UNKNOWN"),
    ],
)
def test_invalid_change_is_refused_and_changes_nothing(
    owner: Client, kind: Any, fields: tuple[Any, ...], code: str
) -> None:
    assert refused(owner, kind, *fields) == code


def test_one_unknown_grant_keeps_all_others(owner: Client) -> None:
    owner.ask(m.GrantCreate, "app", "", *PUT_Q)
    assert refused(owner, m.GrantDelete, "app", "", ["put", "get"], "queue", "Q") == "GRANT_UNKNOWN"
    assert may(owner)


def test_role_in_use_cannot_be_deleted(owner: Client) -> None:
    """Its users would get the rights of a later role of that name."""
    owner.ask(m.RoleCreate, "putter")
    owner.ask(m.UserAlter, "app", {"roles": ["putter"]})
    assert refused(owner, m.RoleDelete, "putter") == "ROLE_IN_USE"
    owner.ask(m.UserAlter, "app", {"roles": []})
    owner.ask(m.RoleDelete, "putter")
    assert refused(owner, m.RoleShow, "putter") == "ROLE_UNKNOWN"


def test_users_roles_and_grants_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = Manager(auth={"users_max": 2})
    owner = manager.connect("owner")
    owner.ask(m.UserCreate, "admin", ADMIN)
    owner.ask(m.UserCreate, "app", {})
    assert refused(owner, m.UserCreate, "third", {}) == "USERS_EXHAUSTED"
    monkeypatch.setattr(users_, "ROLES_EXIST_MAX", 1)
    owner.ask(m.RoleCreate, "putter")
    assert refused(owner, m.RoleCreate, "getter") == "USERS_EXHAUSTED"
    roles = [f"r{number}" for number in range(ROLES_MAX + 1)]
    assert refused(owner, m.UserAlter, "app", {"roles": roles}) == "USERS_EXHAUSTED"
    for number in range(GRANTS_MAX // 2):
        owner.ask(m.GrantCreate, "app", "", ["put", "get"], "queue", f"Q{number}")
    assert refused(owner, m.GrantCreate, "app", "", *PUT_Q) == "USERS_EXHAUSTED"
    owner.ask(m.GrantCreate, "app", "", ["put"], "queue", "Q1")  # It exists already.


def _with_row(owner: Client, key: bytes, row: bytes | None) -> Users:
    """Returns the users after a start with another row in the store."""
    store: MemoryStore = owner.manager.store
    if row is None:
        del store.rows[key]
    else:
        rows.put(store.begin(), key, row)
        store.commit()
    owner.manager.crash()
    return users(owner)


def test_damaged_user_has_no_rights_and_opens_nothing(owner: Client) -> None:
    owner.ask(m.UserDelete, "app")
    found = _with_row(owner, keys.SPACE_USER + b"admin", pack({"verifier": 5}))
    assert found.users == {}
    assert found.accesses == {}
    assert not found.is_open


def test_store_without_users_stays_closed_if_it_had_some(owner: Client) -> None:
    owner.ask(m.UserDelete, "app")
    assert not _with_row(owner, keys.SPACE_USER + b"admin", None).is_open


def test_damaged_role_grants_nothing(owner: Client) -> None:
    owner.ask(m.RoleCreate, "putter")
    owner.ask(m.GrantCreate, "", "putter", *PUT_Q)
    owner.ask(m.UserAlter, "app", {"roles": ["putter"]})
    assert may(owner)
    found = _with_row(owner, keys.SPACE_ROLE + b"putter", pack({"grants": 5}))
    assert "putter" not in found.roles
    assert not may(owner)
    again = owner.manager.connect("owner")
    again.ask(m.RoleCreate, "putter")
    again.ask(m.GrantCreate, "", "putter", *PUT_Q)
    assert may(again)


def test_unknown_user_gets_no_hint_for_users_without_all_rights(owner: Client) -> None:
    context, found = owner.manager.turns.broker.context, users(owner)
    for gives_hints in (True, False):
        context.gives_hints = gives_hints
        with pytest.raises(RequestError) as caught:
            found.find("apq")
        assert caught.value.code == ErrorCode.USER_UNKNOWN
        assert ("did you mean app?" in caught.value.text) == gives_hints


def test_names_are_in_order(owner: Client) -> None:
    for name in ("b", "a"):
        owner.ask(m.UserCreate, name, {})
        owner.ask(m.RoleCreate, name)
    assert users(owner).names() == ["a", "admin", "app", "b"]
    owner.ask(m.UserDelete, "a")
    owner.ask(m.UserCreate, "c", {})
    assert users(owner).names() == ["admin", "app", "b", "c"]
    assert users(owner).role_names() == sorted([*BUILT_IN, "a", "b"])


def test_all_users_of_a_role_share_its_table_before_and_after_a_change(
    owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of a role that many users have builds the table of its grants once."""
    owner.ask(m.RoleCreate, "team")
    for number in range(20):
        owner.ask(m.UserCreate, f"u{number}", {"roles": ["team"]})
    built = list[int]()

    def counted(grants: Any) -> Any:
        built.append(len(grants))
        return table_of(grants)

    monkeypatch.setattr(users_, "table_of", counted)
    owner.ask(m.GrantCreate, "", "team", ["put"], "queue", "Q")
    assert built == [1]
    assert all(may(owner, user=f"u{number}") for number in range(20))
    owner.ask(m.GrantDelete, "", "team", ["put"], "queue", "Q")
    assert not any(may(owner, user=f"u{number}") for number in range(20))
    (row,) = [row for row in owner.ask(m.RoleList)["roles"] if row["role"] == "team"]
    assert row["users"] == 20
