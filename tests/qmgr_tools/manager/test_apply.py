import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("bad", "code", "why"),
    [
        ("[queues.B]\ndepth_max = 0", 2, "queues.B.depth_max: 0 is too small (1 to "),
        ("colour = 1", 2, "colour: unknown key; known keys: links, "),
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
