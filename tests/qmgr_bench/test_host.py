from pathlib import Path

import pytest

from qmgr_bench.host import Host, Memory
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.traffic import fill
from qmgr_protocol import messages as m

STATUS = "Name:\tqmgrd\nVmRSS:\t 51300 kB\nRssAnon:\t 30000 kB\nRssFile:\t 21000 kB\nThreads:\t1\n"


def test_memory_is_distinguished_from_mapped_files() -> None:
    assert Memory.of(STATUS) == Memory(30_000 * 1024, 21_000 * 1024)


@pytest.mark.process
def test_backlog_survives_a_stop_and_a_kill(tmp_path: Path) -> None:
    with Host(tmp_path / "host") as host:
        host.ask(m.QueueCreate, "Q")
        fill(host, "Q", 1_000, lambda words: None)
        before_ns = host.cpu_ns()
        assert before_ns > 0
        host.stop()
        assert host.start_cold("Q") > 0
        host.kill()
        host.start("Q")
        assert host.depth("Q") == 1_000
        assert host.memory().anonymous_bytes > 1 << 20
        assert host.data_bytes() >= 256 * 1_000
        host.ask(m.QueueDelete, "Q", True)
        host.wait_for_jobs()
        assert host.ask(m.Status)["jobs"] == 0


@pytest.mark.process
def test_time_of_one_that_waits_has_all_that_it_did(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        for _ in range(20):
            before_ns = host.idle_cpu_ns()
            host.ask(m.Status)
            assert host.idle_cpu_ns() > before_ns


@pytest.mark.process
def test_host_that_cannot_start_says_where_its_log_is(tmp_path: Path) -> None:
    host = Host(tmp_path, "no name")
    with pytest.raises(LoadFailed, match="qmgrd no name ended with code 2: "):
        host.__enter__()
    assert "is not a name" in (tmp_path / "log").read_text()
    host.stop()  # The second stop has no effect.


@pytest.mark.process
def test_host_finds_its_environment(tmp_path: Path) -> None:
    host = Host(tmp_path, environment={"QMGRD_LINK__WINDOW_MESSAGES": "0"})
    with pytest.raises(LoadFailed, match="ended with code 2: "):
        host.__enter__()
    assert "link.window_messages" in (tmp_path / "log").read_text()
