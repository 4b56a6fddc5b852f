"""qmctl auth explain."""

import pytest

from tests.qmgr_tools.conftest import Qmctl


@pytest.fixture
def bob(at: Qmctl) -> Qmctl:
    """A function that runs qmctl at a daemon with the user bob, who may move messages of A."""
    at("user", "create", "admin", "--role", "administrator", "--generate")
    at("user", "create", "bob", "--no-password")
    at("grant", "create", "--user", "bob", "move,delete", "queue", "A*")
    return at


@pytest.mark.process
def test_deciding_grants_are_shown_and_the_exit_code_tells(bob: Qmctl) -> None:
    denied = bob("auth", "explain", "bob", "queuemove", "queue=A1", "target=B")
    assert denied.code == 4
    assert denied.out.splitlines() == [
        "RIGHT\tKIND\tNAME\tALLOWED\tBY",
        "move\tqueue\tA1\tyes\tmove queue A*",
        "put\tqueue\tB\tno\t",
        "user bob may not send QueueMove",
    ]
    bob("grant", "create", "--user", "bob", "put", "queue", "B")
    allowed = bob("auth", "explain", "bob", "QueueMove", "queue=A1", "target=B", "-o", "json")
    assert allowed.code == 0
    assert set(allowed.json) == {"user", "enabled", "operation", "allowed", "decisions"}
    assert allowed.json["decisions"][1] == {
        "right": "put",
        "kind": "queue",
        "name": "B",
        "allowed": True,
        "by": "put queue B",
    }
    of_admin = bob("auth", "explain", "admin", "QueueMove", "queue=A1", "target=B")
    assert (of_admin.code, of_admin.out.count("role administrator")) == (0, 2)


@pytest.mark.process
def test_flags_and_disabled_users_count(bob: Qmctl) -> None:
    words = ["auth", "explain", "bob", "QueueDelete", "queue=A"]
    assert bob(*words).code == bob(*words, "purge=no").code == 0
    purging = bob(*words, "purge=yes")
    assert (purging.code, "purge\tqueue\tA\tno\t\n" in purging.out) == (4, True)
    assert bob("auth", "explain", "bob", "QueueList").code == 0
    bob("user", "alter", "bob", "--disable")
    disabled = bob(*words)
    assert (disabled.code, "because the user is disabled" in disabled.out) == (4, True)


@pytest.mark.process
def test_requests_of_links_are_explained_by_the_queue_manager(bob: Qmctl) -> None:
    bob("grant", "create", "--user", "bob", "link", "peer", "EWR")
    allowed = bob("auth", "explain", "bob", "LinkOpen", "manager=EWR")
    assert (allowed.code, "link\tpeer\tEWR\tyes\tlink peer EWR\n" in allowed.out) == (0, True)
    denied = bob("auth", "explain", "bob", "LinkOpen")
    assert (denied.code, "link\tpeer\tbob\tno\t\n" in denied.out) == (4, True)


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["bob", "QueueMove"], 2, "add queue=NAME"),
        (["bob", "QueueMove", "queue"], 2, "'queue' is not FIELD=VALUE"),
        (["bob", "QueueMove", "que=A"], 2, "the fields are: queue, target"),
        (["bob", "QueueDelete", "queue=A", "purge=x"], 2, "is neither yes nor no"),
        (["bob", "Queue"], 2, "'Queue' is not a request"),
        (["eve", "QueueMove", "queue=A"], 3, "USER_UNKNOWN"),
    ],
)
def test_mistakes_are_explained(words: list[str], code: int, error: str, bob: Qmctl) -> None:
    ended = bob("auth", "explain", *words)
    assert (ended.code, ended.out) == (code, "")
    assert error in ended.err
