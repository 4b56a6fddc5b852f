"""qmctl grant: create, delete, ls."""

from collections.abc import Iterator

import pytest

from tests.qmgr_tools.conftest import Qmctl, numbers

pytestmark = pytest.mark.process


@pytest.fixture
def role(qm: Qmctl) -> Iterator[str]:
    """A role on the shared daemon, for one test."""
    name = f"role{next(numbers)}"
    qm("role", "create", name)
    yield name
    qm("role", "delete", name)


def test_grants_are_listed_and_revoked(qm: Qmctl, role: str) -> None:
    said = qm("grant", "create", "--role", role, "get,browse", "queue", "A.*").out
    assert said == f"granted get, browse on queue A.* to role {role}\n"
    said = qm("grant", "create", "--role", role, "show", "manager").out
    assert said == f"granted show on the queue manager itself to role {role}\n"
    listed = qm("grant", "ls", "--where", f"subject=role {role}")
    assert listed.out.splitlines() == [
        "SUBJECT\tRIGHT\tKIND\tPATTERN",
        f"role {role}\tshow\tmanager\t",
        f"role {role}\tbrowse, get\tqueue\tA.*",
    ]
    rows = qm("grant", "ls", "--where", f"subject=role {role}", "-o", "json").json
    assert rows[1] == {
        "subject": f"role {role}",
        "user": None,
        "role": role,
        "rights": ["browse", "get"],
        "kind": "queue",
        "pattern": "A.*",
    }
    said = qm("grant", "delete", "--role", role, "get", "queue", "A.*").out
    assert said == f"revoked get on queue A.* of role {role}\n"
    left = qm("grant", "delete", "--role", role, "show", "manager", "-o", "json").json
    assert left["grants"] == [["browse", "queue", "A.*"]]


def test_grants_of_users_and_of_built_in_roles_are_listed(at: Qmctl) -> None:
    at("user", "create", "admin", "--role", "administrator", "--generate")
    at("user", "create", "bob", "--no-password")
    at("grant", "create", "--user", "bob", "publish", "topic", "flights/#")
    (row,) = at("grant", "ls", "-o", "json").json
    assert (row["subject"], row["user"], row["role"]) == ("user bob", "bob", None)
    rows = at("grant", "ls", "--built-in", "--where", "subject=role peer").out.splitlines()
    assert rows[1:] == ["role peer\tput\tqueue\t*", "role peer\tpublish\ttopic\t#"]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["put", "queue", "A"], 2, "exactly one of --user and --role is required"),
        (["--user", "a", "--role", "b", "put", "queue", "A"], 2, "exactly one of"),
        (["--role", "x", "put", "queue"], 2, "for all: '*'"),
        (["--role", "x", "put", "queue", "A,B"], 2, "each grant has one PATTERN -- repeat the"),
        (["--role", "x", "publish", "topic", "a,b"], 3, "ROLE_UNKNOWN"),
        (["--role", "x", "publish", "topic"], 2, "for all: '#'"),
        (["--role", "monitor", "put", "queue", "A"], 6, "role monitor is built in"),
        (["--role", "x", "put", "queue", "A"], 3, "ROLE_UNKNOWN"),
        (["--user", "x", "put", "queue", "A"], 3, "USER_UNKNOWN"),
    ],
)
def test_mistakes_are_explained(words: list[str], code: int, error: str, qm: Qmctl) -> None:
    ended = qm("grant", "create", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["read", "queue", "A"], "'read' is not a right"),
        (["publish", "queue", "A"], "the right to publish does not exist for kind queue"),
        (["put", "queues", "A"], "'queues' is not a kind of object"),
        (["show", "manager", "A"], "the queue manager itself has no name"),
        (["put", "queue", "a/b"], "not a valid pattern"),
    ],
)
def test_invalid_grants_are_refused(words: list[str], error: str, qm: Qmctl, role: str) -> None:
    ended = qm("grant", "create", "--role", role, *words)
    assert (ended.code, error in ended.err) == (2, True)
    assert qm("role", "show", role, "-o", "json").json["grants"] == []


def test_help_lists_the_rights_of_each_kind(qmctl: Qmctl) -> None:
    assert (
        "    topic         publish subscribe show create delete\n"
        in qmctl("grant", "create", "--help").out
    )
