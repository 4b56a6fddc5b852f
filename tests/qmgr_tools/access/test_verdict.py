"""qmctl access test."""

import pytest

from tests.qmgr_tools.conftest import Qmctl


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (["--from", "10.1.2.3", "--as", "app"], 4, "refused: no rule fits"),
        (
            ["--from", "10.1.2.3", "--as", "app", "--tls", "required"],
            0,
            "allowed: rule 2 allows scram-sha-256-plus",
        ),
        (["--from", "unix", "--method", "open"], 0, "allowed: rule 1 allows open"),
        (["--from", "loopback", "--method", "open"], 0, "allowed: rule 1 allows open"),
    ],
)
def test_deciding_rule_is_shown_and_the_exit_code_tells(
    words: list[str], code: int, out: str, at: Qmctl
) -> None:
    ended = at("access", "test", *words)
    assert (ended.code, ended.out) == (code, out + "\n")


@pytest.mark.process
def test_decision_is_shown_as_json(at: Qmctl) -> None:
    found = at("access", "test", "--from", "unix", "--as", "app", "-o", "json")
    assert found.json == {"allowed": True, "rule": 1, "why": "rule 1 allows scram-sha-256"}


@pytest.mark.process
def test_invalid_address_is_explained(at: Qmctl) -> None:
    ended = at("access", "test", "--from", "localhost")
    assert (ended.code != 0, "'localhost' is not an address" in ended.err) == (True, True)
