"""The options of every command."""

import pytest

from tests.qmgr_tools.conftest import Qmctl


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["queue", "ls"], 1),
        (["user", "ls"], 1),
        (["auth", "explain"], 1),  # USER is an argument.
        (["context", "ls"], 0),  # does not connect
        (["user", "delete"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_login_options_are_among_those_of_every_command(
    words: list[str], shown: int, qmctl: Qmctl
) -> None:
    options = qmctl(*words, "--help").out.partition("Options of every command:")[2]
    assert options.count("--user NAME") == shown
    assert options.count("--password-file FILE") == shown


@pytest.mark.parametrize("words", [["user", "create"], ["user", "alter"], ["grant", "create"]])
def test_own_option_of_the_same_name_leaves_both_to_the_front(
    words: list[str], qmctl: Qmctl
) -> None:
    said = qmctl(*words, "--help").out
    options = said.partition("Options of every command:")[2].partition("Examples:")[0]
    assert "--user" not in options
    assert "--password-file" not in options
    assert "give --user and --password-file before" in " ".join(said.split())


def test_login_options_are_among_those_before_the_command(qmctl: Qmctl) -> None:
    assert "--user NAME" in qmctl("--help").out
