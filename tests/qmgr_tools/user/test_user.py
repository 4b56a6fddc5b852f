"""qmctl user: ls, show, delete."""

import pytest

from tests.qmgr_tools.conftest import Daemon, OnTerminal, Qmctl

pytestmark = pytest.mark.process


@pytest.fixture
def two(at: Qmctl) -> Qmctl:
    """A function that runs qmctl at a daemon with an administrator and the user bob."""
    at("user", "create", "admin", "--role", "administrator", "--generate")
    at("user", "create", "bob", "--no-password", "--role", "monitor", "--role", "producer")
    at("grant", "create", "--user", "bob", "get,browse", "queue", "A.*")
    return at


def test_list_shows_who_may_log_in(two: Qmctl) -> None:
    header, admin, bob = two("user", "ls").out.splitlines()
    assert header == "USER\tENABLED\tPASSWORD\tROLES\tGRANTS\tPASSWORD SET"
    assert admin.startswith("admin\tyes\tyes\tadministrator\t0\t2")
    assert bob == "bob\tyes\tno\tmonitor, producer\t2\t"
    assert [row["user"] for row in two("user", "ls", "-o", "json").json] == ["admin", "bob"]
    found = two("user", "ls", "--where", "roles=*producer*", "-o", "json").json
    assert [row["user"] for row in found] == ["bob"]


def test_user_is_shown_with_its_grants(two: Qmctl) -> None:
    lines = two("user", "show", "bob").out.splitlines()
    assert lines[:4] == ["user\tbob", "enabled\tyes", "password\tno", "roles\tmonitor, producer"]
    assert lines[-2:] == ["RIGHT\tKIND\tPATTERN", "browse, get\tqueue\tA.*"]
    shown = two("user", "show", "bob", "-o", "json").json
    assert shown["grants"] == [["get", "queue", "A.*"], ["browse", "queue", "A.*"]]
    assert "verifier" not in shown
    assert two("user", "show", "eve").code == 3


def test_deleted_user_is_gone(two: Qmctl) -> None:
    tried = two("user", "delete", "bob", "--dry-run")
    assert tried.out == "would delete user bob with 2 grants; nothing changed\n"
    refused = two("user", "delete", "bob")
    assert (refused.code, "to confirm, add --yes" in refused.err) == (2, True)
    assert two("user", "delete", "bob", "--yes").out == "deleted user bob; closed 0 connections\n"
    assert two("user", "delete", "bob", "--yes").code == 3
    assert two("user", "delete", "admin", "--yes").code == 0
    assert two("status", "-o", "json").json["open"] is True


def test_deletion_is_confirmed_by_the_name(
    two: Qmctl, on_terminal: OnTerminal, own_daemon: Daemon
) -> None:
    words = ["-c", own_daemon.unix, "user", "delete", "bob"]
    assert on_terminal(*words, typed="admin\n").code == 1
    assert on_terminal(*words, typed="bob\n").code == 0
