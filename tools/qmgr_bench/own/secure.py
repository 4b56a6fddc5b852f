"""SECURE: W1b, W2 and W3 with logins and rights, and over TLS, compared with neither.

    open   no user exists
    users  each connection logs in by SCRAM, and each request needs a right
    tls    the same over TLS 1.3

Each of the three has its own daemon. They take turns, so that a drift affects all of them. Then a
daemon with many users and grants starts, in turns with a daemon without users.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.measure import Work, measure
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.traffic import INFLIGHT, SIZE_BYTES
from qmgr_bench.qmgr import Wire
from qmgr_bench.rows import PREFETCH
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_least, at_most
from qmgr_client.credentials import Credentials
from qmgr_protocol import messages as m
from qmgr_protocol.record import PRIORITY_DEFAULT
from qmgr_protocol.scram import make_verifier
from qmgr_protocol.tls import TlsOptions
from qmgr_tools.tls.authority import CA_FILE, Authority, write

OPEN, USERS, TLS = KINDS = ("open", "users", "tls")
RATIO_MIN = {USERS: 0.97, TLS: 0.75}
ROWS = ("W1b", "W2", "W3")
QUEUE, USER, PASSWORD = "bench", "app", "a password for measurements"
SALT_BYTES = 16
BACKLOG = 200_000  # messages of W3
MANY_USERS, GRANTS_EACH = 10_000, 10
START_MAX_MS = 1_000
RESOLUTION = 0.01  # in place of a processor time of 0, which a very short run has
BATCH = 200  # requests in flight while users are created
GRANTS = (
    (["put", "get", "browse", "create", "delete", "show", "purge"], "queue", QUEUE),
    (["show"], "manager", ""),
)


@dataclass(frozen=True, slots=True)
class Secured:
    """The results of one row of one kind. Ratios compare it with the same row without users."""

    row: str
    kind: str
    messages_per_s: float
    server_cpu_us: float  # processor time of the daemon, per message
    ratio: float  # messages per second
    cpu_ratio: float


@dataclass(frozen=True, slots=True)
class Security:
    """The results of row SECURE."""

    series: list[Secured]
    users: int
    grants: int
    start_ms: float  # time from start to first answer, with these users and grants
    start_ms_open: float  # the same without users

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        found = [
            at_least(f"{one.row} with {one.kind}, relative to neither", one.ratio, least)
            for one in self.series
            if (least := RATIO_MIN.get(one.kind)) is not None
        ]
        what = f"time from start to first answer, {self.users:,} users and {self.grants:,} grants"
        return [*found, at_most(what, self.start_ms, START_MAX_MS, "ms")]

    def bars(self) -> tuple[str, Bars]:
        """Returns the rates as bars."""
        return "messages per second, medians", [
            (f"{one.row}, {one.kind}", one.messages_per_s, one.kind == TLS) for one in self.series
        ]


class Door:
    """A daemon of one kind, and the way in which connections reach it."""

    def __init__(self, directory: Path, kind: str) -> None:
        """Prepares a daemon with its data and certificates in *directory*."""
        self.kind = kind
        self.login: Credentials | None = None
        self.tls: TlsOptions | None = None
        environment = {}
        if kind == TLS:
            environment = _certify(directory / "certificates")
            self.tls = TlsOptions(ca_file=str(directory / "certificates" / CA_FILE))
        self.host = Host(directory / "data", f"BENCH.{kind}", environment)

    def open(self) -> None:
        """Creates the user in the running daemon."""
        if self.kind == OPEN:
            return
        self.login = Credentials(USER, PASSWORD)
        verifier = str(make_verifier(PASSWORD, os.urandom(SALT_BYTES)))
        with Wire(self.host.control, "bench.owner") as wire:
            administrator = {"verifier": verifier, "roles": ["administrator"]}
            wire.ask(m.UserCreate, "administrator", administrator)
            wire.ask(m.UserCreate, USER, {"verifier": verifier})
            for rights, kind, pattern in GRANTS:
                wire.ask(m.GrantCreate, USER, "", rights, kind, pattern)

    @property
    def address(self) -> str:
        """The address of the connections to measure."""
        start = "tls:" if self.kind == TLS else "127."
        return next(address for address in self.host.addresses if address.startswith(start))

    def run(self, work: Work) -> dict[str, Any]:
        """Does *work*, and returns its figures."""
        return measure(self.address, work, self.login, self.tls)


def _certify(directory: Path) -> dict[str, str]:
    """Makes a CA and a certificate in *directory*. Returns the options of a daemon that uses it."""
    directory.mkdir(parents=True)
    now = datetime.now(UTC)
    authority = Authority.create("bench", now)
    authority.save(directory)
    issued = authority.issue(["127.0.0.1"], now, 2)
    certificate, key = directory / "server.crt", directory / "server.key"
    write(certificate, issued.certificate, mode=0o644)
    write(key, issued.key, mode=0o600)
    return {
        "QMGRD_LISTEN__TLS": "127.0.0.1:0",
        "QMGRD_TLS__CERTIFICATE": str(certificate),
        "QMGRD_TLS__KEY": str(key),
    }


def work_of(row: str, setting: Setting) -> Work:
    """Returns the work of *row*."""
    if row == "W3":
        count = setting.scaled(BACKLOG)
        return Work(
            "get", QUEUE, SIZE_BYTES, PRIORITY_DEFAULT, False, count, consumers=1, prefetch=PREFETCH
        )
    consumers = 1 if row == "W2" else 0
    return Work(
        "put" if row == "W1b" else "putget",
        QUEUE,
        SIZE_BYTES,
        PRIORITY_DEFAULT,
        False,
        seconds=setting.seconds,
        producers=1,
        inflight=INFLIGHT,
        consumers=consumers,
        prefetch=PREFETCH,
    )


def secure(setting: Setting) -> Security:
    """Measures each row with each kind, and then the start with many users.

    Raises:
        LoadFailed: A run finished no work.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {(r, k): [] for r in ROWS for k in KINDS}
    with ExitStack() as stack:
        doors = [Door(setting.directory / kind, kind) for kind in KINDS]
        for door in doors:
            stack.enter_context(door.host)
            door.open()
        for number in range(setting.rounds):
            setting.say(f"SECURE: round {number + 1} of {setting.rounds}")
            for row in ROWS:
                os.sync()  # Earlier writes must not be flushed during the run.
                for door in doors if number % 2 else reversed(doors):
                    run = door.run(work_of(row, setting))
                    if not run["messages"]:
                        raise LoadFailed(f"no message of {row} was finished: increase SECONDS")
                    found[row, door.kind].append(run)
    series = [
        _secured(row, kind, found[row, kind], found[row, OPEN]) for row in ROWS for kind in KINDS
    ]
    users = setting.scaled(MANY_USERS)
    return Security(series, users, users * GRANTS_EACH, *_starts(setting, users))


def _secured(
    row: str, kind: str, runs: list[dict[str, Any]], references: list[dict[str, Any]]
) -> Secured:
    (rates, cpus), (open_rates, open_cpus) = (
        [[run[key] or RESOLUTION for run in of] for key in ("messages_per_second", "daemon_cpu_us")]
        for of in (runs, references)
    )
    ratios = median_ratio(rates, open_rates), median_ratio(cpus, open_cpus)
    return Secured(row, kind, round(median(rates)), round(median(cpus), 2), *ratios)


def _starts(setting: Setting, users: int) -> tuple[float, float]:
    """Returns the times in ms of a start with many users, and of one without users."""
    environment = {"QMGRD_AUTH__USERS_MAX": str(users + 1), "QMGRD_AUDIT__RECORD": "never"}
    many = Host(setting.directory / "many", environment=environment)
    none = Host(setting.directory / "none", environment=environment)
    with many:
        _fill(many, users, setting)
    with none:
        pass
    times: dict[Host, list[float]] = {many: [], none: []}
    for number in range(setting.rounds):
        setting.say(f"SECURE: start {number + 1} of {setting.rounds}")
        for host in (many, none):
            times[host].append(host.start())
            host.stop()
    return median(times[many]), median(times[none])


def _fill(host: Host, users: int, setting: Setting) -> None:
    """Creates *users* users, each with its grants."""
    verifier = str(make_verifier(PASSWORD, os.urandom(SALT_BYTES)))
    with Wire(host.control, "bench.owner") as wire:
        administrator = {"verifier": verifier, "roles": ["administrator"]}
        wire.ask(m.UserCreate, "administrator", administrator)
        setting.say(f"SECURE: creating {users:,} users")
        _ask_all(wire, (m.UserCreate(0, f"u{n}", {"verifier": verifier}) for n in range(users)))
        for grant in range(GRANTS_EACH):
            setting.say(f"SECURE: grant {grant + 1} of {GRANTS_EACH} of {users:,} users")
            _ask_all(
                wire,
                (
                    m.GrantCreate(0, f"u{n}", "", ["put"], "queue", f"Q{grant}.{n}.*")
                    for n in range(users)
                ),
            )


def _ask_all(wire: Wire, requests: Iterable[Any]) -> None:
    """Sends *requests*, many at once.

    Raises:
        LoadFailed: A request was refused.
    """
    left = iter(requests)
    while batch := list(islice(left, BATCH)):
        for request in batch:
            wire.send(request._replace(request_id=wire.next_request()))
        for _ in batch:
            answer = wire.next()
            if type(answer) is not m.Ok:
                raise LoadFailed(f"a user was not created: {answer}")
