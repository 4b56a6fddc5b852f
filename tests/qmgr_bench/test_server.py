import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from qmgr_bench.compare import SERVERS
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.qmgr import bodies
from qmgr_bench.redis import RedisServer
from qmgr_bench.server import PORTS, Program, Server, free_port, wait_for

pytestmark = pytest.mark.process


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that every user can access, because PostgreSQL does not run as root."""
    with TemporaryDirectory() as made:
        yield Path(made)


INSTALLED = [server for server in SERVERS if server.version()]


@pytest.mark.long
@pytest.mark.parametrize("server", INSTALLED, ids=lambda server: server.name)
def test_server_takes_and_gives_what_was_put(server: Server, directory: Path) -> None:
    pool = bodies(20, vary=True)
    server.start(directory)
    try:
        server.preload(40, pool)
        sender, receiver = server.sender(pool), server.receiver(16, 20)
        with sender.sock, receiver.sock:
            put = Load(Plan(8, float("inf"), 100), [sender]).run()
            got = Load(Plan(0, float("inf"), 140), [], receiver).run()
        assert (put.messages, got.messages) == (100, 140)
        assert server.cpu_s() >= 0
    finally:
        server.stop()
    server.stop()  # The second stop has no effect.


def test_redis_that_is_not_installed_has_no_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert RedisServer("redis", batch=True).version() is None


def test_processor_time_of_a_program_is_what_it_used(tmp_path: Path) -> None:
    burn = "while time.process_time() < 0.3: pass"
    words = f"import time\n{burn}\nopen('done', 'w').close()\ntime.sleep(60)"
    program = Program()
    program.start([sys.executable, "-c", words], tmp_path)
    try:
        wait_for(program, (tmp_path / "done").exists)
        assert 0.25 <= program.cpu_s() < 3
    finally:
        program.stop()


def test_program_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    program = Program()
    program.start([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)
    with pytest.raises(LoadFailed, match="ended with code 3"):
        wait_for(program, lambda: False)
    program.stop()


def test_port_is_free_and_none_that_a_connection_takes_by_itself() -> None:
    port = free_port()
    assert port in PORTS
    assert PORTS.stop < 32_768
    with socket.create_server(("127.0.0.1", port)):
        assert free_port() != port
