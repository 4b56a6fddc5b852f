"""A queue manager of three members on one PostgreSQL server, and faults of them all.

    active     kills the active member
    standby    kills another member, which loses its store in some cases
    members    kills all members
    database   kills the server
    both       kills the active member and the server
    pause      suspends the active member (SIGSTOP) until another is active, and wakes it up then
    sessions   ends the sessions of the active member on the server

Killed members and servers are started again.
"""

import asyncio
import json
import random
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from qmgr_bench.postgres import USER
from qmgr_client.aio import QueueManager, connect
from qmgr_client.credentials import Credentials
from qmgr_demo.cluster import WAIT_MS, Node
from qmgrd.engine.bases import newest_base
from qmgrd.engine.reader import LogReader, LogTrimmed
from qmgrd.engine.schema import Place, segments
from qmgrd.member.opening import open_member_store, rebuild
from tests.postgres import Postgres
from tests.process.load import OWNER

NAME = "SHARED"
MEMBERS = 3
TAKEOVER_MS = 1_000
PATIENCE_S = 60
MAP_BYTES = 1 << 30
# relative frequencies
KINDS = {
    "active": 4,
    "standby": 2,
    "members": 1,
    "database": 2,
    "both": 2,
    "pause": 2,
    "sessions": 2,
}
OWNER_ROLE = "qmgr"
PROGRAM = "tests.process.member"


class Shared:
    """The members and their server.

    Invariant: ``faults`` has each member that ended although nobody killed it, with its log.
    """

    def __init__(
        self,
        directory: Path,
        server: Postgres,
        seed: int,
        broken: str = "",
        *,
        has_roles: bool = False,
        other_port: int = 0,
    ) -> None:
        """Prepares members with stores and logs in *directory*. Starts *server*.

        Args:
            server: The server of the journal, which :meth:`close` closes.
            seed: Determines the victims of faults.
            broken: The bug of the members, see member.py.
            has_roles: Whether each member has a separate role, so that none can end a session of
                another.
            other_port: The port of the server's synchronous standby, which can replace it.
        """
        self.name = NAME
        self.server, self.seed = server, seed
        self.faults: list[str] = []
        self.other_port = other_port
        self.database_kills = 0
        self.pauses = 0
        self._random = random.Random(seed)
        server.start()
        self.database = server.create_database().rpartition("/")[2]
        self._has_roles = has_roles
        if has_roles:
            self._create_roles()
        program = ("-m", PROGRAM, broken or "sound")
        self.nodes = [
            Node(NAME, directory / f"m{number}", self._settings(f"m{number}"), program)
            for number in range(MEMBERS)
        ]
        self.address = ",".join(node.tcp for node in self.nodes)

    @property
    def url(self) -> str:
        """The address of the journal."""
        if not self.other_port:
            return self.server.url_of(self.database)
        ports = sorted([self.server.port, self.other_port])
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgresql://{USER}@{hosts}/{self.database}?target_session_attrs=read-write"

    def _create_roles(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"create role {OWNER_ROLE}")
            connection.execute(f"grant create on database {self.database} to {OWNER_ROLE}")
            for number in range(MEMBERS):
                connection.execute(f"create role m{number} login in role {OWNER_ROLE}")

    def _settings(self, member: str) -> dict[str, str]:
        url = self.url
        if self._has_roles:
            at = url.rpartition("@")[2]
            url = f"postgresql://{member}@{at}?options=-c%20role%3D{OWNER_ROLE}"
        return {
            "QMGRD_JOURNAL__URL": url + "?&"["?" in url] + f"application_name={member}",
            "QMGRD_JOURNAL__MEMBER": member,
            "QMGRD_JOURNAL__TAKEOVER_MS": str(TAKEOVER_MS),
        }

    def start(self) -> None:
        """Starts all members."""
        for node in self.nodes:
            node.start()

    def connect(self, name: str, user: str = "") -> QueueManager:
        """Returns a client that has the addresses of all members."""
        return connect(self.address, name=name, wait_ms=WAIT_MS)

    def login(self, user: str) -> Credentials:
        """Returns the credentials of *user*: none, because no user exists."""
        return OWNER

    def stop(self) -> None:
        """Stops all members. The server goes on."""
        self.look()
        for node in self.nodes:
            code = node.stop()
            if code and not self.faults:  # A member that was started again may be at its start.
                self.faults.append(f"{name_of(node)} stopped with {code}: {tail(node)}")

    def look(self) -> None:
        """Records faults of the log, and members that have ended, which are started again."""
        self.faults += self.log_faults()
        for node in self.nodes:
            if not node.is_running():
                assert node.process is not None
                code = node.process.returncode
                self.faults.append(f"{name_of(node)} ended with {code}: {tail(node)}")
                node.start()

    def fence(self) -> tuple[int, str]:
        """Returns the epoch and the member that is active. Epoch 0: none yet.

        Raises:
            psycopg.Error: The server is away.
        """
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute(
                "select epoch, member from qmgrd.manager where name = %s", (NAME,)
            ).fetchone()
        return row or (0, "")

    def active(self) -> Node:
        """Returns the member that is active, or was."""
        return self.nodes[int(self.fence()[1].removeprefix("m"))]

    async def strike(self, kind: str) -> None:
        """Causes a fault, and repairs it."""
        active = await asyncio.to_thread(self.active)
        match kind:
            case "active":
                await self._kill([active])
            case "standby":
                victim = self._random.choice([node for node in self.nodes if node is not active])
                await self._kill([victim], loses_store=self._random.random() < 0.3)
            case "members":
                await self._kill(self.nodes)
            case "database":
                await asyncio.to_thread(self._kill_server)
            case "both":
                if is_first := self._random.random() < 0.5:
                    active.kill()
                await asyncio.to_thread(self._kill_server, None if is_first else active)
                active.start()
            case "pause":
                await self.pause(active, self._random.choice([0.0, 0.0, 0.5, 2.0]))
            case "sessions":
                await asyncio.to_thread(self._end_sessions, name_of(active))

    async def _kill(self, nodes: Sequence[Node], *, loses_store: bool = False) -> None:
        for node in nodes:
            await asyncio.to_thread(node.kill)
        for node in nodes:
            if loses_store:
                shutil.rmtree(node.data_dir)
            node.start()

    def _kill_server(self, member: Node | None = None) -> None:
        self.server.kill()
        if member is not None:
            member.kill()
        self.server.start()
        self.database_kills += 1

    async def pause(self, node: Node, after_s: float) -> None:
        """Suspends *node*, which is active, until another has been active for *after_s*."""
        epoch, _ = await asyncio.to_thread(self.fence)
        assert node.process is not None
        node.process.send_signal(signal.SIGSTOP)
        try:
            end_s = time.monotonic() + PATIENCE_S
            while all(one.is_running() for one in self.nodes):
                if (await asyncio.to_thread(self.fence))[0] != epoch:
                    break
                if time.monotonic() > end_s:
                    raise TimeoutError(f"no member became active instead of {name_of(node)}")
                await asyncio.sleep(0.005)
            await asyncio.sleep(after_s)
        finally:
            node.process.send_signal(signal.SIGCONT)
        self.pauses += 1

    def _end_sessions(self, member: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = %s",
                (member,),
            )

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Returns the entries of *event* in the logs of all members."""
        return [entry for node in self.nodes for entry in entries(node) if entry["event"] == event]

    def counted(self) -> str:
        """Returns the counters for a summary line."""
        return (
            f"takeovers={self.fence()[0] - 1} "
            f"fenced={len(self.logged('another member is active'))} "
            f"database_kills={self.database_kills} pauses={self.pauses} "
            f"bases={len(self.logged('made a base of the journal'))} "
            f"rebuilt={len(self.logged('rebuilt the store from a base'))}"
        )

    def place(self) -> Place:
        """Returns the place of the journal."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            row = connection.execute("select number, log from qmgrd.manager").fetchone()
        assert row is not None
        return Place(row[0], row[1].bytes[:8])

    def log_faults(self) -> list[str]:
        """Returns the faults of the log: gaps, records of an epoch that had ended, a late begin."""
        place = self.place()
        with psycopg.connect(self.url, autocommit=True) as connection:
            while True:
                numbers = segments(connection, place)
                try:
                    rows = self._pairs(connection, [place.segment(n) for n in numbers])
                    break
                except psycopg.errors.UndefinedTable:
                    continue  # A segment was dropped meanwhile.
            base = newest_base(connection, place)
        end = base.position.number if base is not None else 0
        found = [
            f"record {record} of epoch {epoch} follows record {before} of epoch {epoch_before}"
            for record, epoch, before, epoch_before in rows
            if before is not None and (record != before + 1 or epoch < epoch_before)
        ]
        firsts = [record for record, _, before, _ in rows if before is None]
        found += [
            f"the log begins with {x}, the base ends with {end}" for x in firsts if x > end + 1
        ]
        return found

    def _pairs(self, connection: psycopg.Connection, tables: list[str]) -> list[tuple[Any, ...]]:
        """Returns the first record of the log, and each that is not as its predecessor demands."""
        log = " union all ".join(f"select record, epoch from {table}" for table in tables)
        return connection.execute(
            "select * from (select record, epoch, lag(record) over (order by record) as before, "
            f"lag(epoch) over (order by record) as epoch_before from ({log}) as log) as pairs "
            "where before is null or record <> before + 1 or epoch < epoch_before"
        ).fetchall()

    def store_faults(self) -> list[str]:
        """Returns the differences between the stores of the stopped members after the last record.

        A store that is too old is rebuilt from a base first, so the bases are also compared.
        """
        found, place, first = [], self.place(), None
        for node in self.nodes:
            try:
                try:
                    rows = self._rows(place, node.data_dir)
                except LogTrimmed:
                    rebuild(self.url, place, node.data_dir)
                    rows = self._rows(place, node.data_dir)
            except Exception as error:
                found.append(f"{name_of(node)}: {type(error).__name__}: {error}")
                continue
            first = first or rows
            wrong = sorted(k for k in first.keys() | rows.keys() if first.get(k) != rows.get(k))
            found += [f"{name_of(node)} has another row {key!r}" for key in wrong[:5]]
        return found

    def _rows(self, place: Place, directory: Path) -> dict[bytes, bytes]:
        """Returns all rows of the store in *directory* after the last record of the log."""
        reader = LogReader(self.url, place, "check")
        store = open_member_store(self.url, place, directory, MAP_BYTES)
        try:
            while not (news := reader.look(store.position)).is_end:
                for record in news.records:
                    store.follow(record)
            store.checkpoint()
            with store.begin() as tx:
                rows = dict(tx.scan(b"\0", b"\xff"))
            store.abort()
            return rows
        finally:
            reader.close()
            store.close()

    def close(self) -> None:
        """Ends everything."""
        for node in self.nodes:
            if node.is_running():
                node.kill()
        self.server.close()


def drawn(rng: random.Random, count: int) -> list[str]:
    """Returns *count* random kinds of faults."""
    return rng.choices(list(KINDS), list(KINDS.values()), k=count)


def entries(node: Node) -> list[dict[str, Any]]:
    """Returns the log of a member."""
    lines = node.log.read_text(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def tail(node: Node, count: int = 6) -> str:
    """Returns the last entries of the log of a member, without those of single clients."""
    last = [entry for entry in entries(node) if entry["event"] != "connection closed"][-count:]
    return "\n".join(map(str, last))


def name_of(node: Node) -> str:
    return node.data_dir.parent.name
