"""Runs of the rows with peers. Each run starts a server, does the work and stops the server.

The same engine drives every server, with the same bodies and windows. A put or ack is counted when
the server answers it. Every server answers only after the data is on disk. The speed of disks
drifts, so the servers take turns in each round, each time with a new data directory. A ratio is the
median of the ratios within each round. The disk is measured before every round, and its flushes are
counted in each run.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qmgr_bench.beanstalkd import BeanstalkdServer
from qmgr_bench.figures import Figures
from qmgr_bench.host import QmgrServer
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.median import median, median_ratio
from qmgr_bench.nats import NatsServer
from qmgr_bench.postgres import PostgresServer
from qmgr_bench.qmgr import bodies
from qmgr_bench.rabbitmq import RabbitServer
from qmgr_bench.redis import RedisServer
from qmgr_bench.rows import OURS, PREFETCH, ROWS, SECONDS, Row, references, takes_part
from qmgr_bench.server import Server
from qmgr_bench.setting import Setting

SYNCS = 100
SECONDS_MAX = 3.0  # maximum duration of a run in s, per second of puts
SECONDS_BESIDE = 2.5  # first estimate of the time to start, fill and stop a server
BACKLOG_PER_S = 60_000  # first estimate of the rate of puts for a backlog
ONE_A_FRAME = QmgrServer(coalesce=False)
SERVERS: tuple[Server, ...] = (
    QmgrServer(),
    RedisServer("redis", batch=False),
    RedisServer("redis-batch", batch=True),
    RabbitServer(),
    PostgresServer("postgres", batch=False),
    PostgresServer("postgres-batch", batch=True),
    BeanstalkdServer(),
    NatsServer(),
)


def run_once(server: Server, row: Row, setting: Setting) -> dict[str, Any]:
    """Starts *server* with an empty directory, runs *row* and stops the server.

    Returns the figures.

    Raises:
        LoadFailed: The server did not finish the work.
    """
    if row.one_a_frame and server.name == OURS:
        server = ONE_A_FRAME
    with TemporaryDirectory(prefix="run-", dir=setting.directory) as data:
        try:
            server.start(Path(data))
            return _measure(server, row, setting)
        finally:
            server.stop()


def _measure(server: Server, row: Row, setting: Setting) -> dict[str, Any]:
    pool, directory = bodies(row.size_bytes, vary=True), setting.directory
    backlog = int(row.backlog * min(setting.seconds / SECONDS, 1) * setting.scale)
    if backlog:
        server.preload(backlog, pool)
        os.sync()  # Earlier writes must not be flushed during the run.
    with ExitStack() as sockets:
        senders = [server.sender(pool) for _ in range(row.producers)]
        receivers = [server.receiver(PREFETCH, row.size_bytes)] if row.gets else []
        for sock in [s.sock for s in senders] + [r.sock for r in receivers]:
            sockets.enter_context(sock)
        before_s, before = server.cpu_s(), flushes(directory)
        count = 0 if senders else backlog
        limit_s = setting.seconds * SECONDS_MAX
        plan = Plan(row.inflight, setting.seconds, count, seconds_max=limit_s)
        outcome = Load(plan, senders, *receivers).run()
        cpu_s, after = server.cpu_s() - before_s, flushes(directory)
    made = None if before is None or after is None else after - before
    return asdict(Figures.of(outcome, cpu_s)) | {"flushes": made}


def flushes(directory: Path) -> int | None:
    """Returns the number of flushes of *directory*'s disk, or None if it is unknown.

    The device counts the flushes of all writers.
    """
    device = directory.stat().st_dev
    try:
        words = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text()
    except OSError:
        return None
    numbers = words.split()
    return int(numbers[15]) if len(numbers) > 15 else None


def disk_sync_ms(directory: Path) -> float:
    """Returns the median time in ms of an append of 512 B and its fdatasync."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "sync"
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            start_ns = time.monotonic_ns()
            file.write(b"x" * 512)
            os.fdatasync(file.fileno())
            times.append(time.monotonic_ns() - start_ns)
    path.unlink()
    return round(median(times) / 1e6, 3)


def compare(
    servers: Sequence[Server], rows: Sequence[str], setting: Setting, rest_s: float = 0
) -> Iterator[dict[str, Any]]:
    """Yields the figures of each run. The servers take turns.

    *rest_s* is the estimated time of later work, for the progress line.

    A peer that fails is reported, and later runs skip it.

    Raises:
        LoadFailed: Our daemon failed.
    """
    left = _Left(setting.seconds, rest_s)
    work, rounds = turns(servers, rows), setting.rounds
    failed: set[str] = set()
    for number in range(1, rounds + 1):
        sync_ms = disk_sync_ms(setting.directory)
        in_order = work if number % 2 else work[::-1]
        for at, (name, server) in enumerate(in_order):
            if server.name in failed:
                continue
            still = in_order[at:] + work * (rounds - number)
            gone = left.text([(row, s.name) for row, s in still if s.name not in failed])
            setting.say(f"round {number} of {rounds}: {name} {server.name}; {gone}")
            start_s = time.monotonic()
            try:
                measured = run_once(server, ROWS[name], setting)
            except (LoadFailed, OSError) as error:
                if server.name == OURS:
                    raise LoadFailed(f"{name}: {error}") from error
                failed.add(server.name)
                setting.note(f"{server.name} failed in {name} and is skipped from now on: {error}")
                continue
            left.took(name, server.name, time.monotonic() - start_s)
            yield {
                "round": number,
                "row": name,
                "server": server.name,
                "disk_sync_ms": sync_ms,
            } | measured


def turns(servers: Sequence[Server], rows: Sequence[str]) -> list[tuple[str, Server]]:
    """Returns the runs of a round: each row with each server that takes part.

    If a row of ours is compared with another row of ours, its run directly follows that row's run,
    so both find the disk in the same state. The other row is run for that purpose even if it is not
    in *rows*.
    """
    work = [
        (name, server)
        for name in rows
        for server in servers
        if takes_part(server.name, name, [*rows])
    ]
    for ours in [pair for pair in work if pair[1].name == OURS]:
        for other in references(ours[0]):
            reference = (other, ours[1])
            if reference not in work:
                work.insert(work.index(ours), reference)
            work.remove(ours)
            work.insert(work.index(reference) + 1, ours)
    return work


class _Left:
    """An estimate of the remaining time. Each run is expected to take as long as it did last time.

    The first estimate of a run is computed from its plan.
    """

    def __init__(self, seconds: float, rest_s: float) -> None:
        self._seconds = seconds
        self._rest_s = rest_s
        self._took_s: dict[tuple[str, str], float] = {}

    def took(self, row: str, server: str, seconds: float) -> None:
        """Records the duration of a run."""
        self._took_s[row, server] = seconds

    def text(self, runs: Sequence[tuple[str, str]]) -> str:
        """Returns the remaining time for *runs*, in words."""
        return time_left(self._rest_s + sum(map(self._guess_s, runs)))

    def _guess_s(self, run: tuple[str, str]) -> float:
        guess = self._seconds * 1.3 + SECONDS_BESIDE + ROWS[run[0]].backlog / BACKLOG_PER_S
        return self._took_s.get(run, guess)


def time_left(seconds: float) -> str:
    """Returns *seconds* as text for the remaining time."""
    minutes, rest = divmod(round(seconds), 60)
    return f"about {minutes}:{rest:02} left"


FIGURES = ("messages_per_second", "p50_ms", "p99_ms", "server_cpu_us", "generator_cpu_us")


def summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the medians of *runs* by row and server, with our ratio to each peer."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row, server in dict.fromkeys((run["row"], run["server"]) for run in runs):
        found[row, server] = _medians([r for r in runs if (r["row"], r["server"]) == (row, server)])
    summed = []
    for name in [name for name in ROWS if any(row == name for row, _ in found)]:
        ours = found.get((name, OURS))
        peers_row = name if any(r == name and s != OURS for r, s in found) else ROWS[name].peers_of
        entries = [] if ours is None else [ours]
        if ours is not None and (beside := _beside(runs, name)):
            ours["beside"] = beside
        for (row, server), entry in found.items():
            if row == peers_row and server != OURS:
                ratio = _ratio(runs, (name, OURS), (row, server))
                entries.append(entry | {"row": name} | ({} if ratio is None else {"ratio": ratio}))
        summed += entries
    return summed


def _beside(runs: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    """Returns the ratios of row *name* to the rows of ours that it is compared with."""
    ratios = {other: _ratio(runs, (name, OURS), (other, OURS)) for other in references(name)}
    return {other: ratio for other, ratio in ratios.items() if ratio is not None}


def _ratio(
    runs: Sequence[Mapping[str, Any]], which: tuple[str, str], reference: tuple[str, str]
) -> float | None:
    """Returns the rate of *which* relative to *reference*, or None without a common round."""
    rates: dict[tuple[str, str], dict[int, float]] = {which: {}, reference: {}}
    for run in runs:
        if (pair := (run["row"], run["server"])) in rates:
            rates[pair][run["round"]] = run["messages_per_second"]
    rounds = rates[which].keys() & rates[reference].keys()
    if not rounds:
        return None
    return median_ratio(
        [rates[which][at] for at in rounds], [rates[reference][at] for at in rounds]
    )


def _medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {"row": runs[0]["row"], "server": runs[0]["server"], "runs": len(runs)}
    for key in FIGURES:
        if values := [run[key] for run in runs if run[key] is not None]:
            entry[key] = median(values)
    rates = [run["messages_per_second"] for run in runs]
    flushed = sum(run["flushes"] or 0 for run in runs)
    total = sum(run["messages"] for run in runs)
    return entry | {
        "lowest": min(rates),
        "highest": max(rates),
        "messages_per_flush": round(total / flushed, 1) if flushed else None,
        "is_cut": any(run["is_cut"] for run in runs),
    }
