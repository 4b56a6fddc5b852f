import re
import shlex
from typing import Any

import pytest
import typer

from qmgr_tools.cli.help_text import parts
from qmgr_tools.main import TREE, app
from tests.qmgr_tools.conftest import Qmctl

HYPHENATED = tuple(f"{letter}-" for letter in "abcdefghijklmnopqrstuvwxyz")


def leaves(group: Any, *path: str) -> list[tuple[str, ...]]:
    """Returns the words of each command below *group*."""
    found = []
    for name, command in group.commands.items():
        if command.hidden:  # a former name
            continue
        if hasattr(command, "commands"):
            found += leaves(command, *path, name)
        else:
            found.append((*path, name))
    return found


def groups(group: Any, *path: str) -> list[tuple[str, ...]]:
    """Returns the words of *group* and of each group below *group*."""
    found = [path]
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found += groups(command, *path, name)
    return found


ROOT: Any = typer.main.get_command(app)
LEAVES, GROUPS = leaves(ROOT), groups(ROOT)


def find(*path: str) -> Any:
    command = ROOT
    for name in path:
        command = command.commands[name]
    return command


def examples(text: str | None) -> list[list[str]]:
    """Returns the words of each example in a help text, without the name of the program."""
    lines = [line.strip() for line in (text or "").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("qmctl ")]


def called(words: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Returns the commands that *words* call. The commands are replaced by ones that do nothing."""
    seen: list[tuple[str, ...]] = []
    with monkeypatch.context() as patch:
        for path in LEAVES:
            patch.setattr(find(*path), "callback", lambda own=path, **_: seen.append(own))
        ROOT(args=words, standalone_mode=False)
    return seen


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_each_command_has_examples_that_parse(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = examples(find(*path).epilog)
    assert path in [command for words in own for command in called(words, monkeypatch)]


def test_each_example_is_of_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in LEAVES:
        for words in examples(find(*path).epilog):
            assert called(words, monkeypatch) == [path]


@pytest.mark.parametrize("path", GROUPS[1:], ids=" ".join)
def test_group_has_an_example_of_each_of_its_commands(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [called(words, monkeypatch) for words in examples(find(*path).epilog)]
    assert own == [
        [(*path, name)] for name, command in find(*path).commands.items() if not command.hidden
    ]


@pytest.mark.parametrize("words", examples(ROOT.epilog), ids=" ".join)
def test_first_session_parses(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(called(words, monkeypatch)) == 1


def test_example_that_is_wrong_does_not_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Exception, match="No such option"):
        called(["queue", "ls", "--frob"], monkeypatch)


@pytest.mark.parametrize("path", [*LEAVES, *GROUPS], ids=" ".join)
def test_nothing_wraps_badly_at_80_columns(
    path: tuple[str, ...], qmctl: Qmctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = qmctl(*path, "--help").out.splitlines()
    assert [line for line in lines if len(line) > 80 or line.endswith(HYPHENATED)] == []
    assert [line for line in lines if line.count('"') % 2] == []  # Quoted words stay on one line.


def test_commands_stand_in_sections_in_the_order_of_the_tree(qmctl: Qmctl) -> None:
    listed = qmctl("--help").out.partition("\nOptions:")[0].splitlines()
    for section, commands in TREE.items():
        start = listed.index(f"{section}:") + 1
        end = listed.index("", start) if "" in listed[start:] else len(listed)
        rows = [line.split()[0] for line in listed[start:end] if re.match("  [a-z]", line)]
        assert rows == list(commands)


def test_arguments_have_a_name_and_a_meaning(qmctl: Qmctl) -> None:
    for path in LEAVES:
        arguments = [one for one in find(*path).params if one.param_type_name == "argument"]
        _, _, text = qmctl(*path, "--help").out.partition("\nArguments:\n")
        section = text.partition("\n\n")[0]
        for argument in arguments:
            row = rf"^  {re.escape(argument.metavar)}(\.\.\.|\])* {{2,}}\w"
            assert re.search(row, section, re.MULTILINE), (path, argument.metavar, section)
        assert not re.search("<|required", section)


def test_group_names_its_commands(qmctl: Qmctl) -> None:
    for path in GROUPS:
        if path:
            commands = find(*path).commands
            names = ", ".join(name for name in commands if not commands[name].hidden)
            assert f": {names}." in " ".join(qmctl(*path, "--help").out.split())


def test_commands_come_before_options_and_examples_last(qmctl: Qmctl) -> None:
    text = qmctl("--help").out
    titles = ["Messages:", "This program:", "Options:", "Exit codes:", "A first session"]
    assert sorted(titles, key=text.index) == titles
    text = qmctl("queue", "ls", "--help").out
    titles = ["JSON:", "Options:", "Options of every command:", "Examples:"]
    assert sorted(titles, key=text.index) == titles


@pytest.mark.parametrize("mark", ["Examples:", "\b\nExamples:"])
def test_examples_are_cut_from_the_docstring(mark: str) -> None:
    above, below = parts(f"Do it.\n\n{mark}\n  qmctl do", "JSON: it.")
    assert above == "Do it.\n\nJSON: it."
    assert below == "\b\nExamples:\n  qmctl do"
    assert parts("Do it.") == ("Do it.", None)
