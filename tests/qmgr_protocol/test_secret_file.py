"""Files with passwords and tokens: who may read them, and what they contain."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from qmgr_protocol.secret_file import check_mode, read_password, read_token

READERS = (read_password, read_token)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "secret"
    found.write_text("a.b.c")
    return found


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("mode", [0o400, 0o600, 0o700])
def test_file_that_only_its_owner_may_read_is_read(
    file: Path, read: Callable[[Path], object], mode: int
) -> None:
    file.chmod(mode)
    assert read(file) in ("a.b.c", b"a.b.c")


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o660])
def test_file_that_others_may_read_is_refused_with_the_command_that_corrects_it(
    file: Path, read: Callable[[Path], object], mode: int
) -> None:
    file.chmod(mode)
    with pytest.raises(ValueError, match=rf"other users may read the .* file {file}") as refused:
        read(file)
    assert f"(mode {mode:04o}): run chmod 6" in str(refused.value)
    assert "a.b.c" not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root can change the owner.")
def test_group_may_read_a_file_of_root_but_of_no_other_user(file: Path) -> None:
    """Kubernetes mounts secrets like this if the pod has an fsGroup."""
    file.chmod(0o440)
    os.chown(file, 0, 7_470)
    assert read_password(file) == "a.b.c"
    os.chown(file, 7_471, 7_470)
    with pytest.raises(ValueError, match=r"run chmod 600 [^,]*$"):
        read_password(file)
    file.chmod(0o444)
    os.chown(file, 0, 7_470)
    with pytest.raises(ValueError, match=r"chmod 640 .*, or set defaultMode: 0440"):
        read_password(file)


def test_mode_is_that_of_the_target_of_a_link(file: Path, tmp_path: Path) -> None:
    file.chmod(0o644)
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(ValueError, match="other users may read the key"):
        check_mode(link, "key")


def test_pipe_is_read_whatever_its_mode(tmp_path: Path) -> None:
    """A shell makes a pipe for --password-file <(command)."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o644)
    writer = threading.Thread(target=pipe.write_text, args=("secret",))
    writer.start()
    assert read_password(pipe) == "secret"
    writer.join()
