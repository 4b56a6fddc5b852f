import io
import stat
import sys
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.context import password as passwords


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment with a config directory."""
    (tmp_path / "qmctl").mkdir()
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_kept_password_is_its_owners_alone(environment: dict[str, str]) -> None:
    path = passwords.keep("nyc", "secret", environment)
    path.chmod(0o644)
    assert passwords.keep("nyc", "other", environment) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert passwords.read("test", str(path)) == "other"
    passwords.forget("nyc", environment, None)
    passwords.forget("nyc", environment, None)
    assert list(path.parent.iterdir()) == []


def test_contexts_have_different_files_in_the_directory_of_contexts(
    environment: dict[str, str], tmp_path: Path
) -> None:
    paths = {passwords.path_of(name, environment) for name in ("a", "b", "..", "contexts.json")}
    assert len(paths) == 4
    assert {path.parent for path in paths} == {tmp_path / "qmctl"}
    assert tmp_path / "qmctl" / "contexts.json" not in paths


def test_without_a_home_no_password_is_kept() -> None:
    with pytest.raises(Failure, match="home directory is unknown"):
        passwords.keep("nyc", "secret", {})


def test_password_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a b \n"))
    assert passwords.read("test", "-") == "a b "


@pytest.mark.parametrize("text", ["", "\n", "x" * 1_025])
def test_empty_or_too_long_password_fails(text: str, tmp_path: Path) -> None:
    file = tmp_path / "pw"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(Failure, match="characters instead of 1 to 1024") as caught:
        passwords.read("log in", str(file))
    assert caught.value.exit_code is Exit.FAILED


def test_nobody_is_asked_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))
    with pytest.raises(Failure, match="there is no terminal") as caught:
        passwords.ask("log in", "alice", "use a file")
    assert caught.value.exit_code is Exit.USAGE
