import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.context.file import Contexts, KeptLogin, change, load, path_of


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with a separate configuration directory."""
    return {"XDG_CONFIG_HOME": str(tmp_path)}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of contexts in *environment*."""
    return tmp_path / "qmctl" / "contexts.json"


def add(environment: dict[str, str], name: str, address: str = "h:1") -> None:
    with change(environment) as contexts:
        contexts.addresses[name] = address
        contexts.current = name


def test_written_values_are_read_back(environment: dict[str, str]) -> None:
    add(environment, "nyc", "h:1")
    add(environment, "ewr", "unix:/s")
    assert load(environment) == Contexts({"nyc": "h:1", "ewr": "unix:/s"}, "ewr")


def test_login_is_written_and_read_again(environment: dict[str, str]) -> None:
    add(environment, "nyc")
    with change(environment) as contexts:
        contexts.logins = {"nyc": KeptLogin("alice", "/p")}
    assert load(environment).logins == {"nyc": KeptLogin("alice", "/p")}
    with change(environment) as contexts:
        contexts.logins = {"nyc": KeptLogin("alice")}
    assert load(environment).logins == {"nyc": KeptLogin("alice")}


def test_login_that_is_not_text_is_no_context(environment: dict[str, str], file: Path) -> None:
    add(environment, "nyc")
    file.write_text('{"contexts": {"nyc": {"address": "h:1", "user": 7}}}')
    with pytest.raises(Failure, match="does not contain contexts"):
        load(environment)


def test_file_is_its_owners_alone(environment: dict[str, str], file: Path) -> None:
    add(environment, "nyc")
    file.chmod(0o666)
    add(environment, "ewr")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, Path("/c/qmctl/contexts.json")),
        ({"XDG_CONFIG_HOME": "", "HOME": "/h"}, Path("/h/.config/qmctl/contexts.json")),
        ({"XDG_CONFIG_HOME": "c", "HOME": "/h"}, Path("/h/.config/qmctl/contexts.json")),
        ({}, None),
    ],
)
def test_place_is_as_xdg_has_it(environment: dict[str, str], expected: Path | None) -> None:
    assert path_of(environment) == expected


def test_without_a_home_there_are_none_and_none_can_be_made() -> None:
    assert load({}) == Contexts()
    with pytest.raises(Failure, match="cannot store contexts -- the"), change({}):
        pass


def test_change_that_fails_leaves_the_file(environment: dict[str, str]) -> None:
    add(environment, "nyc")

    def fail() -> None:
        with change(environment) as contexts:
            contexts.addresses.clear()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert load(environment).current == "nyc"


def test_link_to_the_file_stays_one(environment: dict[str, str], file: Path) -> None:
    file.parent.mkdir()
    elsewhere = file.parent.parent / "elsewhere.json"
    file.symlink_to(elsewhere)
    add(environment, "nyc")
    assert file.is_symlink()
    assert '"nyc"' in elsewhere.read_text()


def test_simultaneous_changes_are_all_stored(environment: dict[str, str]) -> None:
    names = [f"c{number}" for number in range(8)]
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Process(target=add, args=(environment, name)) for name in names[:2]]
    for process in started:
        process.start()
    for name in names[2:]:
        add(environment, name)
    for process in started:
        process.join()
    assert sorted(load(environment).addresses) == names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"contexts": []}',
        '{"contexts": {"a": "h:1"}}',
        '{"contexts": {"a": {"address": 1}}}',
        '{"contexts": {}, "current": 1}',
        "\xff",
    ],
)
def test_file_of_something_else_is_named(
    text: str, environment: dict[str, str], file: Path
) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(Failure) as refusal:
        load(environment)
    assert refusal.value.exit_code is Exit.FAILED
    assert str(refusal.value).startswith(f"cannot read the contexts -- {file}: ")
    with pytest.raises(Failure, match="cannot read the contexts"):
        add(environment, "nyc")
    assert file.read_bytes() == text.encode("latin-1")


def test_file_that_cannot_be_read_says_why(environment: dict[str, str], file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(Failure, match="json: Is a directory"):
        load(environment)


def test_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure, match=r"^cannot write .* -- Not a directory"):
        add({"XDG_CONFIG_HOME": str(tmp_path / "file")}, "nyc")


def test_current_one_that_is_gone_is_none(environment: dict[str, str], file: Path) -> None:
    file.parent.mkdir()
    file.write_text('{"current": "old", "contexts": {}}')
    assert load(environment) == Contexts()


def test_no_context_at_all_says_how_to_make_one() -> None:
    with pytest.raises(
        Failure, match="no context is defined -- create it with: qmctl context create nyc"
    ):
        Contexts().address("nyc")


def test_file_of_a_thousand_brackets_is_told(environment: dict[str, str], file: Path) -> None:
    file.parent.mkdir()
    file.write_text("[" * 100_000)
    with pytest.raises(Failure, match="cannot read the contexts") as refusal:
        load(environment)
    assert refusal.value.exit_code is Exit.FAILED


@pytest.mark.parametrize("kind", ["pipe", "endless", "huge"])
def test_foreign_file_is_not_read(kind: str, environment: dict[str, str], file: Path) -> None:
    file.parent.mkdir()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "endless":
        file.symlink_to("/dev/zero")
    else:
        file.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(Failure, match="cannot read the contexts --") as refusal:
        load(environment)
    assert refusal.value.exit_code is Exit.FAILED
