"""Checks of the Dockerfile and its contents. These checks do not need a container engine."""

import fnmatch
import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from qmgr_client.blocking import connect
from qmgr_config.load import load
from qmgr_protocol.version import VERSION
from qmgr_tools.main import run as qmctl
from tests.process.daemon import Daemon

REPO = Path(__file__).parent.parent
ROOTS = ("qmgrd", "protocol", "config", "tools", "spark")


def instructions() -> list[tuple[str, str]]:
    """Returns each instruction with its arguments on one line."""
    text = re.sub(r"(?m)^#.*\n", "", (REPO / "Dockerfile").read_text()).replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(name, " ".join(rest.split())) for name, rest in lines]


def stages() -> list[list[tuple[str, str]]]:
    """Returns the instructions of each stage, starting with FROM."""
    found: list[list[tuple[str, str]]] = []
    for name, rest in instructions():
        if name == "FROM":
            found.append([])
        if found:
            found[-1].append((name, rest))
    return found


def only(name: str) -> str:
    """Returns the arguments of the only instruction of that kind in the last stage."""
    (found,) = [rest for other, rest in stages()[-1] if other == name]
    return found


def is_ignored(path: str) -> bool:
    """Returns whether .dockerignore excludes a path. The last matching line decides."""
    ignored = False
    for line in (REPO / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        parents = [path, *map(str, Path(path).parents)][: path.count("/") + 1]
        if any(_matches(parent, pattern) for parent in parents):
            ignored = not line.startswith("!")
    return ignored


def _matches(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatch(path.rpartition("/")[2], pattern[3:])
    return path.count("/") == pattern.count("/") and fnmatch.fnmatch(path, pattern)


def test_last_stage_copies_the_build_to_the_same_path() -> None:
    build, last = stages()
    assert build[0][1].endswith(" AS build")
    assert ("RUN", "python -m venv /opt/qmgrd") in build
    assert ("COPY", "--from=build /opt/qmgrd /opt/qmgrd") in last
    assert not [rest for name, rest in last if name == "RUN" and "pip" in rest]


def test_all_copied_files_exist_and_are_not_ignored() -> None:
    copied = [
        source
        for name, rest in instructions()
        if name == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    ]
    assert "requirements-runtime.lock" in copied
    for source in copied:
        assert (REPO / source).exists()
        assert source == "." or not is_ignored(source)


def test_context_contains_only_the_sources_of_the_package() -> None:
    needed = ["pyproject.toml", "README.md", "LICENSE", "config/qmgrd.toml", "qmgrd/qmgrd/main.py"]
    assert [path for path in needed if is_ignored(path)] == []
    others = [".git", ".venv", "tests", "docs", "build", "qmgrd/qmgrd/__pycache__", "Dockerfile"]
    assert [path for path in others if not is_ignored(path)] == []


def test_image_runs_as_an_unprivileged_numeric_user() -> None:
    """Kubernetes' runAsNonRoot requires a number. The user owns the directory of the volume."""
    user = only("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    made = only("RUN")
    assert f"--uid {user.partition(':')[0]} " in made
    assert f"-m 0700 {only('VOLUME')}" in made
    kinds = [name for name, _ in stages()[-1]]
    assert kinds.index("RUN") < kinds.index("USER") < kinds.index("ENTRYPOINT")


def test_signals_reach_the_daemon() -> None:
    assert only("STOPSIGNAL") == "SIGTERM"
    program, *arguments = json.loads(only("ENTRYPOINT"))  # The program runs without a shell.
    assert program == "qmgrd"
    copied = only_copy_to(arguments[-1])
    config = load(REPO / copied)
    assert f"QMGRD_LISTEN__TLS=0.0.0.0:{only('EXPOSE')}\n" in (REPO / copied).read_text()
    assert str(config.queue_manager.data_dir) == only("VOLUME")


def only_copy_to(target: str) -> str:
    (source,) = [
        rest.split()[0]
        for name, rest in stages()[-1]
        if name == "COPY" and rest.endswith(f" {target}")
    ]
    return source


def test_labels_match_the_package() -> None:
    labels = dict(
        part.split("=", 1) for part in shlex.split(only("LABEL")) if part.startswith("org.")
    )
    for key in ("version", "title", "licenses", "description"):
        assert labels[f"org.opencontainers.image.{key}"]
    assert labels["org.opencontainers.image.version"] == VERSION


@pytest.mark.process
def test_health_check_finds_a_daemon_with_the_shipped_configuration(tmp_path: Path) -> None:
    """The daemon has a user, so that other clients must log in."""
    check = only("HEALTHCHECK").partition("CMD ")[2]
    program, *arguments = json.loads(check.replace(only("VOLUME"), str(tmp_path / "data")))
    assert program == "qmctl"
    assert str(tmp_path / "data") in arguments
    shipped = load(REPO / "config/examples/container.toml").model_dump(exclude_unset=True)
    daemon = Daemon(
        tmp_path / "data", **shipped | {"listen": {**shipped["listen"], "tcp": ["127.0.0.1:0"]}}
    )
    try:
        address = daemon.start().address
        with connect(f"unix:{tmp_path}/data/qmgrd.sock") as client:
            client.admin.user_create("admin", "secret", roles=["administrator"])
        assert qmctl(["-c", address, "status"]) != 0
        assert qmctl(arguments) == 0
        daemon.stop()
        assert qmctl(arguments) != 0
    finally:
        daemon.close()


def test_package_has_every_source_and_no_test(tmp_path: Path) -> None:
    """The package is built as by `pip install .`, and not as an editable package."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=REPO,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    sources = {
        path.relative_to(REPO / root).as_posix()
        for root in ROOTS
        for path in (REPO / root).glob("*/**/*")
        if path.suffix == ".py" or path.name == "py.typed"
    }
    assert sources <= names
    data = {name.partition("/data/share/")[2] for name in names if ".data/" in name}
    assert {"qmgrd/qmgrd.toml", "qmgrd/qmgrd.service", "qmgrd/examples/hub.toml"} <= data
    assert {name for name in names - sources if ".dist-info/" not in name} == {
        name for name in names if ".data/data/share/qmgrd/" in name
    }
