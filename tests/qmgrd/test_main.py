"""Tests of the command: options, exit codes, and the errors of failed starts."""

import errno
import gc
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from qmgr_config.model import Config
from qmgrd import daemon as daemons
from qmgrd import main as command
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.core.turn import TurnFailed
from qmgrd.daemon import Daemon
from qmgrd.main import EXIT_CONFIG, EXIT_FAILED, EXIT_LISTEN, EXIT_OK, EXIT_STORE, run
from qmgrd.net.welcome import SOFTWARE
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import LmdbStore


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restores the signals and the log, which the command configures in this process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for module in (command, daemons):
        monkeypatch.setattr(module, "log", structlog.get_logger())
    yield
    structlog.reset_defaults()
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def stopped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each daemon stop as soon as it runs."""
    serve = Daemon.run

    async def run_shortly(self: Daemon) -> None:
        self.stop()
        await serve(self)

    monkeypatch.setattr(Daemon, "run", run_shortly)


@pytest.mark.usefixtures("stopped_at_once")
def test_collections_are_short_while_the_daemon_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen, serve = [], Daemon.run

    async def run_and_count(self: Daemon) -> None:
        frozen.append(gc.get_freeze_count())
        await serve(self)

    monkeypatch.setattr(Daemon, "run", run_and_count)
    assert run(options(tmp_path)) == EXIT_OK
    assert frozen[0] > 0
    assert gc.get_freeze_count() == 0


def options(data_dir: Path, *more: str) -> list[str]:
    return ["--data-dir", str(data_dir), "--name", "QM1", "--tcp", "127.0.0.1:0", *more]


@pytest.mark.usefixtures("stopped_at_once")
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_ordered_stop_exits_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loop: str
) -> None:
    assert run(options(tmp_path, "--loop", loop)) == EXIT_OK
    said = capsys.readouterr().err
    assert "listening" in said
    assert "stopped" in said


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"{SOFTWARE}\n"


def test_check_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(options(tmp_path / "new", "--check")) == EXIT_OK
    assert capsys.readouterr().out == "the configuration is valid\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nframe_max = 1\n", "limits.frame_max: unknown key, did you mean"),
        ("[queue_defaults]\ndepth_max = -1\n", "queue_defaults.depth_max: -1 is not positive"),
        ('[listen]\ntcp = ["0.0.0.0:7470"]\n', "name the address in listen.tls instead"),
        ("nonsense", "invalid TOML"),
    ],
)
def test_invalid_configuration_is_reported_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (tmp_path / "qmgrd.toml").write_text(text)
    assert run(["--config", str(tmp_path / "qmgrd.toml")]) == EXIT_CONFIG
    assert words in capsys.readouterr().err


def test_name_that_is_not_utf8_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--name", os.fsdecode(b"\xff"), "--check"]) == EXIT_CONFIG
    assert r"queue_manager.name: '\udcff' is not UTF-8" in capsys.readouterr().err


def test_missing_configuration_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--config", "/none/qmgrd.toml"]) == EXIT_CONFIG
    assert "/none/qmgrd.toml: cannot read the file: No such file" in capsys.readouterr().err


@pytest.mark.usefixtures("stopped_at_once")
def test_options_beat_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "qmgrd.toml"
    file.write_text('[queue_manager]\nname = "OTHER"\ndata_dir = "/none"\n[listen]\ntcp = []\n')
    assert run(["--config", str(file), "--name", "MINE", "--data-dir", str(tmp_path)]) == EXIT_OK
    assert '"name": "MINE"' in capsys.readouterr().err
    assert run(["--config", str(file), "--data-dir", str(tmp_path)]) == EXIT_STORE
    assert "queue manager MINE, but the configuration names OTHER" in capsys.readouterr().err
    assert run(["--data-dir", str(tmp_path)]) == EXIT_STORE
    assert "no name is configured: give --name MINE" in capsys.readouterr().err


def test_snapshot_is_no_data_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("data.mdb", "manifest.json"):
        (tmp_path / name).touch()
    assert run(options(tmp_path)) == EXIT_STORE
    assert f"mkdir -p DIR/store && cp {tmp_path}/data.mdb DIR/store/" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.mdb", "manifest.json"]


def test_second_daemon_on_a_directory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = LmdbStore(tmp_path, 1 << 20)
    assert run(options(tmp_path)) == EXIT_STORE
    assert "is in use by another qmgrd" in capsys.readouterr().err
    store.close()


def test_missing_store_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    LmdbStore(tmp_path, 1 << 20).close()
    shutil.rmtree(tmp_path / "store")
    assert run(options(tmp_path)) == EXIT_STORE
    assert "store/data.mdb is missing" in capsys.readouterr().err


def test_directory_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(options(tmp_path / "file" / "data")) == EXIT_STORE
    assert "Not a directory" in capsys.readouterr().err


def test_map_smaller_than_the_store_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A daemon with such a map could not even drain its queues."""
    store = LmdbStore(tmp_path / "data", 1 << 24)
    tx = store.begin()
    for i in range(1_000):
        tx.put(i.to_bytes(4, "big"), bytes(3_000))
    store.commit()
    store.close()
    (tmp_path / "qmgrd.toml").write_text('[store]\nmap_bytes = "2 MiB"\n')
    file = ["--config", str(tmp_path / "qmgrd.toml")]
    assert run([*file, *options(tmp_path / "data")]) == EXIT_STORE
    assert "raise store.map_bytes (2097152)" in capsys.readouterr().err


def test_port_in_use_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run([*options(tmp_path)[:-1], f"127.0.0.1:{port}"]) == EXIT_LISTEN
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreFailed("disk"), EXIT_STORE), (TurnFailed(0, ValueError("bug")), EXIT_FAILED)],
)
def test_daemon_that_fails_exits_with_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    async def fail(self: Daemon) -> None:
        raise error

    monkeypatch.setattr(Daemon, "run", fail)
    assert run(options(tmp_path)) == code
    LmdbStore(tmp_path, 1 << 20).close()  # The daemon has released the directory.


def test_unavailable_event_loop_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("uvloop.new_event_loop", refuse)
    assert run(options(tmp_path / "data")) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "cannot run the event loop" in said
    assert "Too many open files" in said


def test_damage_found_only_by_a_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("mdb_get: MDB_CORRUPTED: Located page was wrong type")

    monkeypatch.setattr(command, "Daemon", fail)
    assert run(options(tmp_path)) == EXIT_STORE
    assert "it may be damaged" in capsys.readouterr().err


def test_help_describes_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run(["--help"])
    assert end.value.code == EXIT_OK
    said = capsys.readouterr().out
    assert all(len(line) <= 80 for line in said.splitlines())
    defaults = Config()
    for words in (
        "examples:",
        "exit codes:",
        "QMGRD_STORE__MAP_BYTES",
        f"({defaults.queue_manager.name})",
        f"({defaults.queue_manager.data_dir})",
        f"({defaults.listen.tcp[0]})",
    ):
        assert words in said
    for code in (EXIT_OK, EXIT_FAILED, EXIT_CONFIG, EXIT_STORE, EXIT_LISTEN):
        assert f"\n  {code}  " in said


def test_option_is_not_abbreviated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        run(["--nam", "NYC", "--data-dir", str(tmp_path), "--check"])
    assert end.value.code == EXIT_CONFIG
    assert "unrecognized arguments: --nam NYC" in capsys.readouterr().err


@pytest.mark.usefixtures("stopped_at_once")
def test_disk_that_fails_at_the_last_checkpoint_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: JournalStore) -> None:
        raise StoreFailed("the disk failed")

    monkeypatch.setattr(JournalStore, "close", fail)
    assert run(["--name", "QM1", "--data-dir", str(tmp_path / "qm1")]) == EXIT_STORE
    assert "the disk failed" in capsys.readouterr().err


# -- a journal on a server


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense=1", "journal.url is not valid"),
        ("postgresql://nobody@{host}/missing", "the server of the journal"),
    ],
)
def test_server_that_cannot_keep_the_journal_ends_the_start(
    url: str,
    words: str,
    tmp_path: Path,
    journal_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    host = journal_url.partition("@")[2].partition("/")[0]
    monkeypatch.setenv("QMGRD_JOURNAL__URL", url.format(host=host))
    assert run(options(tmp_path)) == EXIT_STORE
    said = capsys.readouterr().err
    assert "cannot use the journal" in said
    assert words in said


def test_store_with_a_local_journal_is_refused_by_a_member(
    tmp_path: Path,
    journal_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    JournalStore(tmp_path, 1 << 28, 1 << 20).close()
    with_turns = JournalStore(tmp_path, 1 << 28, 1 << 20)
    with_turns.begin().put(b"key", b"value")
    with_turns.commit()
    with_turns.close()
    monkeypatch.setenv("QMGRD_JOURNAL__URL", journal_url)
    assert run(options(tmp_path)) == EXIT_STORE
    assert "are not those of the journal at journal.url" in capsys.readouterr().err
