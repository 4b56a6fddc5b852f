"""Throwaway PostgreSQL servers for tests and for the harnesses in tests/process.

    with Postgres() as server:
        url = server.create_database()

A server stores its data in a temporary directory and listens on a free port of 127.0.0.1 and on a
unix socket. All logins are trusted.
"""

import atexit
import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from qmgr_bench.postgres import USER, program_path
from qmgr_bench.server import Program, free_port, process_tree, wait_for

PATIENCE_S = 60  # a deadline, not a measurement: the machine may be busy
SHORT = "/tmp"  # The kernel limits the path of a unix socket to 107 bytes.
SEGMENT_LINE = 6  # index of the line in postmaster.pid with the key and the id of the segment
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "max_connections": "50",
    "max_wal_size": "128MB",
    "jit": "off",
    # Segments in /dev/shm would remain after a kill.
    "dynamic_shared_memory_type": "mmap",
}


def unavailable() -> str:
    """Returns the reason why no server can be started, or "" if one can."""
    return "" if program_path("postgres") else "needs PostgreSQL: Debian package postgresql"


def system_user() -> str | None:
    """Returns the user of the server's processes. None: the current user.

    PostgreSQL refuses to run as root.
    """
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return USER if USER in known else "nobody"


@cache
def _template() -> Path:
    """Returns new data, which the servers of this process copy because initdb takes a second."""
    server = Postgres()
    atexit.register(server.close)
    server._create(from_template=False)
    return server.data


class Postgres:
    """A PostgreSQL server with its data. Invariant: the data exists until close().

    The server may be started, stopped and killed any number of times. Its port never changes.
    """

    def __init__(self, *, fsync: bool = False, parent: Path | None = None, port: int = 0) -> None:
        """Prepares a server without data.

        Args:
            fsync: Whether a commit flushes to the disk. Without it, commits survive kill(), but no
                power cut.
            parent: The directory for the data. The user of the server must be able to access it.
            port: The port to listen on. 0: a free port.
        """
        self.fsync = fsync
        self.port = port or free_port()
        self._user = system_user()
        self._parent = parent
        self.directory = self._make_directory(parent or Path(SHORT))
        self.sockets = self._make_directory(Path(SHORT))
        self.data = self.directory / "data"
        self._program = Program()
        self._standbys: list[Postgres] = []
        self._names = count(1)

    def _make_directory(self, parent: Path) -> Path:
        made = tempfile.mkdtemp(prefix="pg-", dir=parent)
        if self._user is not None:
            shutil.chown(made, self._user)
        return Path(made)

    @property
    def url(self) -> str:
        """The address of the database "postgres", over TCP."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Returns the address of *database*, over TCP."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    @property
    def socket_url(self) -> str:
        """The address of the database "postgres", over the unix socket."""
        return f"postgresql://{USER}@/postgres?host={self.sockets}&port={self.port}"

    @property
    def log(self) -> str:
        """The log of the server, from its first start on."""
        return (self.directory / "log").read_text(errors="replace")

    def connect(self) -> psycopg.Connection:
        """Returns a connection to the database "postgres". Each statement is a transaction."""
        return psycopg.connect(self.url, autocommit=True)

    def value(self, query: str, *parameters: object) -> Any:
        """Returns the first column of the first row of a query."""
        with self.connect() as connection:
            row = connection.execute(query.encode(), parameters or None).fetchone()
        assert row is not None, query
        return row[0]

    def start(self) -> Self:
        """Starts the server, and waits until it accepts connections.

        The first start creates the data.

        Raises:
            LoadFailed: The server ended, or took too long.
        """
        if not self.data.exists():
            self._create()
        settings = SETTINGS | {
            "port": str(self.port),
            "unix_socket_directories": str(self.sockets),
            "fsync": "on" if self.fsync else "off",
        }
        words = [f"--{name}={value}" for name, value in settings.items()]
        program = [program_path("postgres") or "", "-D", str(self.data), *words]
        self._program.start(program, self.directory, user=self._user)
        self._wait_for(self.is_ready)
        return self

    def _create(self, *, from_template: bool = True) -> None:
        if from_template and not self.fsync:  # A copy is not flushed.
            self._run("cp", "-R", str(_template()), str(self.data))
            return
        options = ["-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale"]
        self._run("initdb", "-D", str(self.data), *options, *self._sync)

    @property
    def _sync(self) -> list[str]:
        """The options of programs that would otherwise flush what they create."""
        return [] if self.fsync else ["--no-sync"]

    def _run(self, name: str, *arguments: str) -> None:
        """Runs a program of PostgreSQL, as the server's user."""
        program = Program()
        program.start([program_path(name) or name, *arguments], self.directory, user=self._user)
        program.end()

    def _wait_for(self, is_true: Callable[[], bool]) -> None:
        wait_for(self._program, is_true)

    def is_ready(self) -> bool:
        """Returns whether the server accepts connections.

        Only this server has the unix socket; another program may have taken the port.
        """
        with suppress(psycopg.OperationalError), psycopg.connect(self.socket_url):
            return True
        return False

    def stop(self) -> None:
        """Stops the server cleanly. Open transactions are aborted (fast shutdown)."""
        self._program.stop(signal.SIGINT)

    def kill(self) -> None:
        """Kills all processes of the server, as a crash of the machine does.

        The cache of the operating system survives.
        """
        pid = self._program.pid
        os.kill(pid, signal.SIGSTOP)  # A running server could start another process meanwhile.
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        ends = [os.pidfd_open(one) for one in process_tree(pid)]
        for end in ends:
            signal.pidfd_send_signal(end, signal.SIGKILL)
        for end in ends:
            ended = select.poll()
            ended.register(end, select.POLLIN)
            assert ended.poll(PATIENCE_S * 1_000), "a process survived SIGKILL"
            os.close(end)
        self._program.stop(signal.SIGKILL)

    def restart(self) -> Self:
        """Stops the server cleanly if it runs, and starts it."""
        self.stop()
        return self.start()

    def create_database(self) -> str:
        """Creates an empty database, and returns its address."""
        name = f"test_{next(self._names)}"
        with self.connect() as connection:
            connection.execute(
                SQL("CREATE DATABASE {} TEMPLATE template0").format(Identifier(name))
            )
        return self.url_of(name)

    def drop_database(self, url: str) -> None:
        """Deletes the database with the address *url*, and ends its connections."""
        name = Identifier(url.rpartition("/")[2])
        with self.connect() as connection:
            connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    def alter_system(self, name: str, value: str) -> None:
        """Changes a setting that takes effect without a restart, and waits for the change."""
        change = SQL("ALTER SYSTEM SET {} = {}").format(Identifier(name), Literal(value))
        with self.connect() as connection:
            connection.execute(change)
            connection.execute("SELECT pg_reload_conf()")
        self._wait_for(lambda: self.value("SELECT current_setting(%s)", name) == value)

    def standby(
        self, name: str = "standby", *, synchronous: bool = False, port: int = 0
    ) -> "Postgres":
        """Starts a copy of this server that receives its changes. close() also closes the copy.

        Args:
            name: The name of the copy (application_name).
            synchronous: Whether a commit waits from now on until the copy has stored it. Only one
                copy can be synchronous.
            port: The port of the copy. 0: a free port.
        """
        copy = Postgres(fsync=self.fsync, parent=self._parent, port=port)
        self._standbys.append(copy)
        source = f"{self.url}?application_name={name}"
        options = ["--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf"]
        copy._run("pg_basebackup", "-d", source, "-D", str(copy.data), *options, *self._sync)
        with (copy.data / "postgresql.auto.conf").open("a") as settings:
            settings.write("synchronous_standby_names = ''\n")  # A promoted copy has no standby.
        copy.start()
        if synchronous:
            self.alter_system("synchronous_standby_names", f'"{name}"')
        states = ["sync"] if synchronous else ["async", "potential"]
        query = """SELECT count(*) FROM pg_stat_replication
            WHERE application_name = %s AND state = 'streaming' AND sync_state = ANY (%s)"""
        self._wait_for(lambda: self.value(query, name, states) == 1)
        return copy

    def wait_for_replay(self, copy: "Postgres") -> None:
        """Waits until queries on *copy* see all changes that this server has committed."""
        position = self.value("SELECT pg_current_wal_flush_lsn()::text")
        query = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        copy._wait_for(lambda: bool(copy.value(query, position)))

    def promote(self) -> None:
        """Makes a standby a primary, and waits until it accepts changes."""
        assert self.value("SELECT pg_promote(true, %s)", PATIENCE_S), self.log

    def part(self, copy: "Postgres") -> None:
        """Makes close() leave *copy* as it is, for example because the copy was promoted."""
        self._standbys.remove(copy)

    def close(self) -> None:
        """Stops the server and its standbys at once, and deletes their data."""
        self._program.stop(signal.SIGQUIT)
        while self._standbys:
            self._standbys.pop().close()
        self._free_memory()
        for directory in (self.directory, self.sockets):
            if directory.exists():
                shutil.rmtree(directory)

    def _free_memory(self) -> None:
        """Deletes the System V segment that a killed server leaves; the kernel limits their number.

        A server that stopped has deleted the segment and the file that names it.
        """
        with suppress(OSError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            # A server that was killed during its start may have written fewer lines.
            for line in lines[SEGMENT_LINE : SEGMENT_LINE + 1]:
                subprocess.run(["ipcrm", "--shmem-id", line.split()[-1]], check=False)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()
