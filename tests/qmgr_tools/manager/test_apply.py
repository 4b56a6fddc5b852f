import re
from pathlib import Path

import pytest

from qmgr_protocol.verifier import of_nobody
from qmgr_tools.manager import definitions
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process
EXAMPLE = Path(__file__).parents[3] / "config" / "examples" / "definitions.toml"


@pytest.fixture
def own(qmctl: Qmctl, own_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Qmctl:
    """A function that runs qmctl against a separate daemon."""
    monkeypatch.setenv("QMCTL_CONNECT", own_daemon.unix)
    return qmctl


def test_example_is_applied_once(own: Qmctl) -> None:
    dry = own("apply", "-f", str(EXAMPLE), "--dry-run")
    assert dry.code == 0
    assert dry.out.splitlines()[-1] == "8 definitions would change, 0 unchanged"
    assert own("queue", "ls", "-o", "json").json == []
    done = own("apply", "-f", str(EXAMPLE))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        line.removeprefix("would ").replace("would change", "changed")
        for line in dry.out.splitlines()
    ]
    row = own("queue", "show", "APP.ORDERS", "-o", "json").json
    assert (row["depth_max"], row["expiry_action"], row["lease_ms"], row["template"]) == (
        1_000_000,
        "dead-letter",
        120_000,
        "APP.*",
    )
    assert own("queue", "show", "SALES", "-o", "json").json["alias_of"] == "APP.ORDERS"
    assert own("apply", "-f", str(EXAMPLE)).out == "0 definitions changed, 8 unchanged\n"


def test_example_does_not_stand_in_the_way_of_the_readme() -> None:
    """After the example has been applied, the commands in the README still work."""
    session = (EXAMPLE.parents[2] / "README.md").read_text()
    made = set(re.findall(r"^\$ qmctl .*queue create (\S+)", session, re.MULTILINE))
    found = definitions.read(EXAMPLE)
    assert "ORDERS" in made
    assert made.isdisjoint(found.queues.keys() | found.aliases.keys())


def test_dump_is_what_apply_leaves_as_it_is(own: Qmctl, tmp_path: Path) -> None:
    own("apply", "-f", str(EXAMPLE))
    own("queue", "alter", "@HUB", "--depth-max", "7")
    own("queue", "alter", "SYSTEM.EVENTS", "--lease", "7s")
    own("queue", "alter", "APP.PRICES", "--put-inhibit", "--retry-factor", "1.5")
    dumped = own("dump")
    assert (dumped.code, dumped.err) == (0, "")
    path = tmp_path / "dumped.toml"
    path.write_text(dumped.out)
    again = own("apply", "-f", str(path), "--prune", "-o", "json").json
    assert (again["changed"], again["steps"], again["unchanged"]) == (False, [], 10)
    assert own("dump").out == dumped.out
    assert own("dump", "-o", "json").json["aliases"] == {"SALES": "APP.ORDERS"}
    assert own("queue", "show", "APP.PRICES", "-o", "json").json["put_inhibit"] is True


def test_dump_is_all_that_another_queue_manager_needs(own: Qmctl, tmp_path: Path) -> None:
    own("apply", "-f", str(EXAMPLE))
    own("queue", "alter", "SYSTEM.EVENTS", "--lease", "7s")
    path = tmp_path / "dumped.toml"
    path.write_text(own("dump").out)
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    own("apply", "-f", str(empty), "--prune")
    assert [row["queue"] for row in own("queue", "ls", "--system", "-o", "json").json] == [
        "SYSTEM.EVENTS"
    ]
    assert own("apply", "-f", str(path)).code == 0
    assert own("dump").out == path.read_text()


def test_prune_leaves_what_holds_messages(own: Qmctl, tmp_path: Path) -> None:
    own("queue", "create", "FULL")
    own("queue", "create", "EMPTY")
    own("put", "FULL", "x")
    path = tmp_path / "empty.toml"
    path.write_text("")
    assert own("apply", "-f", str(path)).out == "0 definitions changed, 0 unchanged\n"
    ended = own("apply", "-f", str(path), "--prune")
    assert (ended.code, ended.err) == (0, "note: kept: queue FULL holds 1 message\n")
    assert ended.out == "delete queue EMPTY\n1 definition changed, 0 unchanged\n"
    assert [row["queue"] for row in own("queue", "ls", "-o", "json").json] == ["FULL"]


USERS = """
[roles.shops]
grants = ["put queue ORDERS.*", "show manager"]

[users.admin]
roles = ["administrator"]
verifier = "%s"

[users.EWR]
roles = ["peer"]
queue_manager = "EWR"

[users.bob]
roles = ["shops"]
grants = ["get,browse queue ORDERS.*"]
enabled = false
"""
VERIFIER = str(of_nobody(b"a secret of 32 bytes for a test.", "admin"))


def test_users_are_applied_once_and_dumped_without_passwords(own: Qmctl, tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text(USERS % VERIFIER)
    done = own("apply", "-f", str(path))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "create role shops: grants show manager, put queue ORDERS.*",
        "create user admin: roles administrator; password set",
        "create user EWR: roles peer; queue manager EWR",
        "create user bob: roles shops; grants browse,get queue ORDERS.*; enabled yes -> no",
        "4 definitions changed, 0 unchanged",
    ]
    assert own("apply", "-f", str(path)).out == "0 definitions changed, 4 unchanged\n"
    assert own("user", "show", "EWR", "-o", "json").json["has_password"] is False
    dumped, hidden = own("dump").out, own("dump", "--no-secrets").out
    assert dumped.count(VERIFIER) == 1
    assert hidden == dumped.replace(f'verifier = "{VERIFIER}"\n', "")
    path.write_text(hidden)
    assert own("apply", "-f", str(path), "--prune").out == "0 definitions changed, 4 unchanged\n"
    assert own("dump").out == dumped, "the password of admin was kept"


def test_users_are_altered_and_pruned_only_if_the_file_has_users(
    own: Qmctl, tmp_path: Path
) -> None:
    path = tmp_path / "users.toml"
    path.write_text(USERS % VERIFIER)
    own("apply", "-f", str(path))
    path.write_text("")
    assert own("apply", "-f", str(path), "--prune").out == "0 definitions changed, 0 unchanged\n"
    path.write_text(
        '[roles]\n[users.admin]\nroles = ["administrator"]\n'
        '[users.bob]\ngrants = ["get queue ORDERS.*", "put queue Q"]\n'
    )
    done = own("apply", "-f", str(path), "--prune")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "alter user bob: roles shops -> ; grants browse,get queue ORDERS.* -> get queue "
        "ORDERS.*, put queue Q; enabled no -> yes",
        "delete user EWR",
        "delete role shops",
        "3 definitions changed, 1 unchanged",
    ]
    bob = own("user", "show", "bob", "-o", "json").json
    assert bob["grants"] == [["get", "queue", "ORDERS.*"], ["put", "queue", "Q"]]
    assert [row["user"] for row in own("user", "ls", "-o", "json").json] == ["admin", "bob"]


@pytest.mark.parametrize(
    ("bad", "code", "why"),
    [
        ("[queues.B]\ndepth_max = 0", 2, "queues.B.depth_max: 0 is too small (1 to "),
        ("colour = 1", 2, "colour: unknown key; known keys: links, "),
        ('[users.a]\ngrants = ["get"]', 2, "users.a.grants: 'get' is not RIGHT[,RIGHT...] KIND"),
        ('[users.a]\ngrants = ["fly queue Q"]', 2, "users.a.grants: 'fly' is not a right on"),
        ("[users.a]\nenabled = 1", 2, "users.a.enabled: the value is neither true nor false"),
        ('[users.a]\nroles = "x"', 2, "users.a.roles: the value is not an array of strings"),
        ('[users.a]\nverifier = "secret"', 2, "users.a.verifier: "),
        ('[users.a]\npassword = "x"', 2, "users.a.password: unknown key"),
        ("[roles.a]\nroles = []", 2, "roles.a.roles: unknown key"),
        ('[queues."F@EWR"]', 6, 'queues."F@EWR": link EWR'),
    ],
)
def test_file_with_a_fault_changes_nothing(
    own: Qmctl, tmp_path: Path, bad: str, code: int, why: str
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"{bad}\n[queues.A]\n" if bad.startswith("colour") else f"[queues.A]\n{bad}\n")
    ended = own("apply", "-f", str(path))
    assert (ended.code, ended.out) == (code, "")
    assert f"cannot apply {path} -- {why}" in ended.err
    assert own("queue", "ls", "-o", "json").json == []
