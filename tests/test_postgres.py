"""Tests of the throwaway PostgreSQL servers."""

from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from qmgr_bench.load import LoadFailed
from tests.postgres import SEGMENT_LINE, Postgres, unavailable

REASON = unavailable()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def test_each_database_is_empty_and_stores_utf8(postgres: Postgres, journal_url: str) -> None:
    with psycopg.connect(journal_url) as connection:
        connection.execute("CREATE TABLE t (word text)")
        connection.execute("INSERT INTO t VALUES (%s)", ["Zürich"])
    other = postgres.create_database()
    with psycopg.connect(other) as connection:
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        assert connection.execute("SELECT to_regclass('t')").fetchone() == (None,)
    postgres.drop_database(other)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(other)


def test_unix_socket_accepts_connections(postgres: Postgres) -> None:
    with psycopg.connect(postgres.socket_url) as connection:
        assert connection.execute("SELECT inet_client_addr()").fetchone() == (None,)


def test_commit_survives_a_kill_and_a_clean_restart() -> None:
    with Postgres() as server:
        url = server.create_database()
        connection = psycopg.connect(url)
        connection.execute("CREATE TABLE t (id int)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        connection.execute("INSERT INTO t VALUES (2)")
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        connection.close()
        assert not server.is_ready()
        for restart in (server.start, server.restart):
            restart()
            with psycopg.connect(url) as again:
                assert again.execute("SELECT id FROM t").fetchall() == [(1,)]
        assert "was not properly shut down" in server.log
        assert server.value("SHOW fsync") == "off"
        server.fsync = True
        assert server.restart().value("SHOW fsync") == "on"


def test_promoted_standby_has_each_acknowledged_commit() -> None:
    with Postgres() as server:
        copy = server.standby(synchronous=True)
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int)")
            server.wait_for_replay(copy)
            assert copy.value("SELECT count(*) FROM t") == 0
            connection.execute("INSERT INTO t VALUES (1)")
            server.kill()
        copy.promote()
        with copy.connect() as connection:
            assert connection.execute("SELECT id FROM t").fetchall() == [(1,)]
            connection.execute("INSERT INTO t VALUES (2)")
        (segment,) = segments(server)
        assert segment in shared_memory()
    assert segment not in shared_memory()
    assert not server.directory.exists()
    assert not server.sockets.exists()
    assert not copy.directory.exists()


def segments(server: Postgres) -> list[str]:
    """Returns the id of the server's System V segment."""
    lines = (server.data / "postmaster.pid").read_text().splitlines()
    return [line.split()[1] for line in lines[SEGMENT_LINE : SEGMENT_LINE + 1]]


def shared_memory() -> set[str]:
    """Returns the ids of all System V segments."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()}


def test_asynchronous_standby_follows(postgres: Postgres) -> None:
    with closing(postgres.standby()) as copy:
        with postgres.connect() as connection:
            connection.execute("CREATE TABLE followed AS SELECT 1 AS id")
        postgres.wait_for_replay(copy)
        assert copy.value("SELECT id FROM followed") == 1


def test_server_that_cannot_start_shows_its_error_and_is_deleted() -> None:
    server = Postgres()
    server.data.mkdir()
    with pytest.raises(LoadFailed, match="postgres ended with code 2: "), server:
        pass
    assert not server.directory.exists()


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.postgres.program_path", lambda name: None)
    assert unavailable() == "needs PostgreSQL: Debian package postgresql"
