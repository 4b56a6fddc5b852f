"""Tests that each of the three wheels works in an environment with only its requirements."""

import json
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.process.daemon import Daemon

REPO = Path(__file__).parent.parent
SOURCES = {"qmgr-client": "protocol", "qmgrd": "qmgrd", "qmgr-spark": "spark"}
OURS = {
    "qmgr-client": {"qmgr_client", "qmgr_protocol"},
    "qmgrd": {"qmgrd", "qmgr_config", "qmgr_tools"},
    "qmgr-spark": {"qmgr_tables", "pyspark_qmgr"},
}
ROUND_TRIP = """
import asyncio, sys
from qmgr_client import connect
from qmgr_client.aio import connect as connect_aio

address = sys.argv[1]
with connect(address) as client:
    client.admin.queue_create("Q")
    client.put("Q", b"apples")

async def main():
    async with connect_aio(address) as queue_manager:
        message = await queue_manager.get("Q")
        await queue_manager.ack(message)
        return message.body

print(asyncio.run(main()).decode())
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Builds the wheels, as `pip wheel` does."""
    folder = tmp_path_factory.mktemp("wheels")
    for source in SOURCES.values():
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-deps",
                "--no-build-isolation",
                "--wheel-dir",
                folder,
                REPO / source,
            ],
            check=True,
        )
    return {path.name.partition("-")[0].replace("_", "-"): path for path in folder.glob("*.whl")}


def required(names: list[str], seen: set[str]) -> set[str]:
    """Returns the distributions that *names* need, directly or indirectly, except ours."""
    for text in names:
        requirement = Requirement(text)
        name = requirement.name.lower()
        if name in seen or name in SOURCES:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required(metadata.requires(name) or [], seen | {name})
            seen.add(name)
            seen |= required(metadata.requires(name) or [], seen)
    return seen


class Environment:
    """A fresh virtual environment with some of our wheels and their requirements."""

    def __init__(self, folder: Path, wheels: list[Path]) -> None:
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        self.python = self.bin / "python"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                self.python,
                "install",
                "--quiet",
                "--no-deps",
                *wheels,
            ],
            check=True,
        )
        (self.site,) = folder.glob("lib/python*/site-packages")
        for name in required(self._requires(), set()):
            self._link(metadata.distribution(name))

    def _requires(self) -> list[str]:
        found = metadata.distributions(path=[str(self.site)])
        return [text for one in found for text in one.requires or ()]

    def _link(self, found: metadata.Distribution) -> None:
        """Links an installed distribution, because an index may not be available."""
        for top in {Path(str(file)).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            link = self.site / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))

    def run(self, *arguments: str | Path) -> str:
        """Runs a program of this environment; returns its output."""
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=60, cwd=self.bin, env={"HOME": "/"}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lacks(self, *modules: str) -> bool:
        """Returns whether all of *modules* are missing."""
        code = f"from importlib.util import find_spec; print(any(map(find_spec, {modules!r})))"
        return self.run(self.python, "-c", code).strip() == "False"


@pytest.mark.parametrize("name", SOURCES)
def test_wheel_has_its_packages_and_no_benchmark_demo_or_proxy(
    name: str, wheels: dict[str, Path]
) -> None:
    listing = subprocess.run(
        [sys.executable, "-m", "zipfile", "-l", wheels[name]],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    tops = {line.split("/")[0] for line in listing.splitlines()[1:] if "/" in line}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == OURS[name]
    assert "__pycache__" not in listing


@pytest.mark.process
def test_client_needs_neither_uvloop_nor_lmdb(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", [wheels["qmgr-client"]])
    assert environment.lacks("uvloop", "lmdb", "pydantic", "typer", "qmgrd", "sortedcontainers")
    daemon = Daemon(tmp_path / "data").start()
    try:
        done = environment.run(environment.python, "-c", ROUND_TRIP, daemon.address)
        assert done == "apples\n"
    finally:
        daemon.close()


@pytest.mark.long
@pytest.mark.process
def test_daemon_and_qmctl_run_without_tables(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", [wheels["qmgr-client"], wheels["qmgrd"]])
    assert environment.lacks("pyarrow", "pyspark", "sortedcontainers", "qmgr_bench", "qmgr_proxy")
    qmctl = environment.bin / "qmctl"
    environment.run(environment.bin / "qmgrd", "--check")
    assert "proxy" not in environment.run(qmctl, "--help")
    daemon = Daemon(tmp_path / "data")
    daemon.command = [str(environment.bin / "qmgrd")]
    try:
        daemon.start()
        to = ["--connect", daemon.address]
        environment.run(qmctl, *to, "queue", "create", "Q")
        environment.run(qmctl, *to, "put", "Q", "apples")
        assert "apples" in environment.run(qmctl, *to, "get", "Q")
        told = subprocess.run(
            [qmctl, "export", "--path", tmp_path, "--to", tmp_path / "out"],
            capture_output=True,
            text=True,
        )
        assert "pip install qmgr-spark" in told.stderr
    finally:
        daemon.close()


@pytest.mark.long
def test_tables_need_no_spark(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", list(wheels.values()))
    assert environment.lacks("pyspark", "pandas", "matplotlib", "deltalake")
    code = "from qmgr_tables.tables.registry import TABLES; print(len(TABLES))"
    assert int(environment.run(environment.python, "-c", code)) > 10
    json.loads(environment.run(environment.bin / "qmctl", "explain", "QUEUE_FULL", "-o", "json"))
