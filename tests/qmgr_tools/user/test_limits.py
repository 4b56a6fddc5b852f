"""Limits of a user: qmctl user create, alter, show."""

from collections.abc import Iterator

import pytest

from qmgr_protocol.limits import USER_LIMITS
from qmgr_tools.user import limits
from tests.qmgr_tools.conftest import Qmctl


def options() -> Iterator[str]:
    for option in limits.options(takes_default=True):
        yield option.name


def test_each_limit_has_an_option() -> None:
    assert list(options()) == list(USER_LIMITS)


@pytest.mark.process
def test_limits_are_set_shown_and_reset(at: Qmctl) -> None:
    at("user", "create", "admin", "--role", "administrator", "--generate")
    words = ("--connections-max", "10", "--stored-bytes-max", "1GiB", "--puts-per-s-max", "1000")
    row = at("user", "create", "bob", "--no-password", *words, "-o", "json").json
    assert row["given"] == ["connections_max", "stored_bytes_max", "puts_per_s_max"]
    lines = at("user", "show", "bob").out.splitlines()
    assert "connections\t0 of 10" in lines
    assert "producers\t0 of 10,000" in lines
    assert "stored bytes\t0 B of 1 GiB" in lines
    assert "puts per s\tat most 1,000" in lines
    assert not any(line.startswith(("consumers", "queues")) for line in lines)
    altered = at("user", "alter", "bob", "--connections-max", "default", "--puts-per-s-max", "0")
    assert altered.code == 0, altered.err
    shown = at("user", "show", "bob", "-o", "json").json
    assert shown["given"] == ["stored_bytes_max", "puts_per_s_max"]
    assert shown["limits"]["connections_max"] == shown["limits"]["puts_per_s_max"] == 0
    assert shown["use"]["connections"] == 0
    wrong = at("user", "alter", "bob", "--connections-max", "200000")
    assert (wrong.code, "100,000" in wrong.err) == (2, True)
