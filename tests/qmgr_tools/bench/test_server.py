import shutil
import sys
from pathlib import Path

import pytest

from qmgr_tools.bench.load import LoadFailed
from qmgr_tools.bench.qmgr import QmgrServer
from qmgr_tools.bench.redis import RedisServer
from qmgr_tools.bench.server import Program, Server, wait_for

pytestmark = pytest.mark.process


def installed() -> list[Server]:
    servers: list[Server] = [QmgrServer()]
    return servers + [RedisServer("redis", batch=False)] * bool(shutil.which("redis-server"))


@pytest.mark.parametrize("server", installed(), ids=lambda server: server.name)
def test_server_starts_empty_and_takes_a_put(server: Server, tmp_path: Path) -> None:
    assert server.version()
    server.start(tmp_path)
    try:
        sender = server.sender([b"body"])
        with sender.sock as sock:
            sock.sendall(sender.put(1))
            assert sender.take(sock.recv(4096)) == 1
            while not server.cpu_s():  # The system counts in steps of 10 ms.
                sock.sendall(sender.put(1))
                assert sender.take(sock.recv(4096)) == 1
    finally:
        server.stop()
    server.stop()  # A second time changes nothing.


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
