"""qmgrd beside the durable servers that are installed here, on equal work: ``make bench``.

The rows are those of W1a ... W3: puts with one in flight, with 256, of 16 producers with 64 each;
puts and gets at once; a backlog drained. The same engine drives every server, with the same bodies
and windows; a put or an ack counts when its answer is back, and every server answers from disk.

Disks drift. So the servers take turns in each round, each time with a fresh data directory, and
medians over the rounds are compared. What the disk does is measured before every round and told.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qmgr_tools import humane, output
from qmgr_tools.bench.load import Load, LoadFailed, Outcome, Plan
from qmgr_tools.bench.qmgr import QmgrServer, bodies
from qmgr_tools.bench.redis import RedisServer
from qmgr_tools.bench.server import Server
from qmgr_tools.failure import Exit

SIZE_BYTES = 256
PREFETCH = 256
PRELOAD_PER_S = 50_000  # messages to drain for each second that the other rows run
PRELOAD_INFLIGHT = 2_048
SYNCS = 100
LOAD_QUIET = 0.7  # processes that ran in the minute before


@dataclass(frozen=True, slots=True)
class Row:
    """A piece of work."""

    about: str
    producers: int
    inflight: int
    gets: bool = False


ROWS = {
    "W1a": Row("put, 1 producer, 1 in flight", 1, 1),
    "W1b": Row("put, 1 producer, 256 in flight", 1, 256),
    "W1c": Row("put, 16 producers, 64 in flight each", 16, 64),
    "W2": Row("put, 256 in flight, and get, 256 ahead, each acked", 1, 256, gets=True),
    "W3": Row("get a backlog, 256 ahead, each acked", 0, 0, gets=True),
}
ROWS_DEFAULT = ("W1a", "W1b", "W2", "W3")
SERVERS: tuple[Server, ...] = (
    QmgrServer(), RedisServer("redis", batch=False), RedisServer("redis-batch", batch=True),
)  # fmt: skip


def run_once(server: Server, row: Row, seconds: float, directory: Path) -> dict[str, Any]:
    """Start *server* with fresh data in *directory*, have it do *row*, stop it; return the figures.

    Raises:
        LoadFailed: the server did not do it.
    """
    with TemporaryDirectory(prefix="run-", dir=directory) as data:
        try:
            server.start(Path(data))
            return _measure(server, row, seconds)
        finally:
            server.stop()


def _measure(server: Server, row: Row, seconds: float) -> dict[str, Any]:
    pool = bodies(SIZE_BYTES, vary=True)
    count = 0
    if not row.producers:
        count = max(int(seconds * PRELOAD_PER_S), 1)
        preloader = server.sender(pool)
        with preloader.sock:
            Load(Plan(PRELOAD_INFLIGHT, float("inf"), count), [preloader], None).run()
    with ExitStack() as sockets:
        senders = [server.sender(pool) for _ in range(row.producers)]
        receiver = server.receiver(PREFETCH, SIZE_BYTES) if row.gets else None
        for sock in [sender.sock for sender in senders] + ([receiver.sock] if receiver else []):
            sockets.enter_context(sock)
        before_s = server.cpu_s()
        outcome = Load(Plan(row.inflight, seconds, count), senders, receiver).run()
        return _measured(outcome, server.cpu_s() - before_s, row)


def _measured(outcome: Outcome, cpu_s: float, row: Row) -> dict[str, Any]:
    latency = outcome.put if row.producers else outcome.ack
    return {
        "messages": outcome.messages,
        "messages_per_second": round(outcome.messages / outcome.seconds),
        "p50_ms": latency.percentile_ms(50),
        "p99_ms": latency.percentile_ms(99),
        "server_cpu_us": round(cpu_s * 1e6 / outcome.messages, 2),
        "generator_cpu_us": round(outcome.generator_cpu_s * 1e6 / outcome.messages, 2),
    }


def disk_sync_ms(directory: Path) -> float:
    """Return how long an append of 512 B and its fdatasync take here, the median."""
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
    return round(statistics.median(times) / 1e6, 3)


def compare(
    servers: Sequence[Server], rows: Sequence[str], seconds: float, rounds: int, directory: Path
) -> Iterator[dict[str, Any]]:
    """Yield what each run measured, the servers taking turns."""
    for number in range(1, rounds + 1):
        sync_ms = disk_sync_ms(directory)
        for name in rows:
            for server in servers if number % 2 else reversed(servers):
                output.note(f"round {number} of {rounds}: {name} {server.name}")
                measured = run_once(server, ROWS[name], seconds, directory)
                yield {"row": name, "server": server.name, "disk_sync_ms": sync_ms} | measured


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the medians of the *runs* of each row and server, with the ratio of ours to theirs."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row, server in dict.fromkeys((run["row"], run["server"]) for run in runs):
        same = [run for run in runs if (run["row"], run["server"]) == (row, server)]
        medians = {
            key: statistics.median(values)
            for key in ("messages_per_second", "p50_ms", "p99_ms", "server_cpu_us",
                        "generator_cpu_us")
            if (values := [run[key] for run in same if run[key] is not None])
        }  # fmt: skip
        rates = [run["messages_per_second"] for run in same]
        found[row, server] = {"row": row, "server": server, "runs": len(same)} | medians
        found[row, server] |= {"lowest": min(rates), "highest": max(rates)}
    for (row, _), entry in found.items():
        ours = found.get((row, QmgrServer.name))
        if ours is not None and entry is not ours:
            ratio = ours["messages_per_second"] / entry["messages_per_second"]
            entry["ratio"] = round(ratio, 2)
    return list(found.values())


COLUMNS = (
    output.text("row"),
    output.text("server"),
    output.count("messages_per_second", "MSG/S"),
    output.count("lowest"),
    output.count("highest"),
    output.count("p50_ms", "P50 MS"),
    output.count("p99_ms", "P99 MS"),
    output.count("server_cpu_us", "CPU US/MSG"),
    output.count("generator_cpu_us", "LOAD US/MSG"),
    output.count("ratio", "QMGRD/IT"),
)


def busy_warning(load: float) -> str:
    """Return what to say of a machine that has other work at the start, or nothing."""
    if load < LOAD_QUIET:
        return ""
    return f"warning: this machine is busy (load {load:.1f}): the figures are no good but as ratios"


def machine(load: float) -> dict[str, Any]:
    """Return what the figures depend on; *load* is that of the minute before."""
    return {
        "load_before": round(load, 2),
        "at": humane.rfc3339(time.time_ns() // 1000),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def installed(peers: Sequence[str]) -> dict[str, str]:
    """Return the versions of qmgrd and of those of *peers* that are installed here."""
    versions = {}
    for server in SERVERS:
        if server.name not in (QmgrServer.name, *peers):
            continue
        version = server.version()
        if version is None:
            output.note(f"{server.name} is not installed here: left out")
        else:
            output.note(f"{server.name}: {version}; {server.about}")
            versions[server.name] = version
    return versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print it, write it; return the exit code."""
    options = parse(arguments, os.environ)
    load = os.getloadavg()[0]
    versions = installed(options.peers)
    servers = [server for server in SERVERS if server.name in versions]
    directory = options.dir.absolute()
    try:
        runs = list(compare(servers, options.rows, options.seconds, options.rounds, directory))
    except (LoadFailed, OSError) as error:
        print(f"error: the benchmark stopped -- {error} -- run it again", file=sys.stderr)
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    rows = summary(runs)
    report(options, rows, runs)
    if warning := busy_warning(load):
        output.note(warning)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({
        "machine": machine(load), "versions": versions, "size_bytes": SIZE_BYTES,
        "seconds": options.seconds, "rows": rows, "runs": runs,
    }, indent=2) + "\n")  # fmt: skip
    output.note(f"written to {options.json}")
    return 0


def report(
    options: argparse.Namespace, rows: list[dict[str, Any]], runs: list[dict[str, Any]]
) -> None:
    """Print what was found."""
    for name in options.rows:
        output.say(f"{name:4} {ROWS[name].about}")
    low, *_, high = sorted(run["disk_sync_ms"] for run in runs) * 2
    output.say(
        f"{SIZE_BYTES} B a message, medians of {options.rounds} rounds of {options.seconds:g} s; "
        f"512 B and an fdatasync took {low} to {high} ms"
    )
    output.table(COLUMNS, rows)


def parse(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> argparse.Namespace:
    """Return the options; ends the process with a text where they are wrong."""
    peers = [server.name for server in SERVERS if server.name != QmgrServer.name]
    parser = argparse.ArgumentParser(
        prog="python -m qmgr_tools.bench",
        description="qmgrd beside the durable servers that are installed here, on equal work.",
        epilog="ROWS, PEERS and SECONDS in the environment do as the options.",
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=[environment.get("ROWS", "")],
        help=f"of {', '.join(ROWS)}; by default {', '.join(ROWS_DEFAULT)}",
    )
    parser.add_argument(
        "--peers",
        nargs="+",
        default=[environment.get("PEERS", "")],
        help=f"of {', '.join(peers)}, or none; by default all",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=environment.get("SECONDS") or "4",
        help="how long each run puts",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--dir", type=Path, default=Path("build/bench"), help="a directory on the disk to measure"
    )
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))  # fmt: skip
    options = parser.parse_args(arguments)
    options.rows = _words(options.rows) or list(ROWS_DEFAULT)
    options.peers = _words(options.peers) or peers
    for given, known in ((options.rows, [*ROWS]), (options.peers, [*peers, "none", "qmgrd"])):
        if unknown := [word for word in given if word not in known]:
            parser.error(f"{unknown[0]!r} is none of {', '.join(known)}")
    if options.seconds <= 0 or options.rounds < 1:
        parser.error("--seconds and --rounds are to be positive")
    return options


def _words(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in text.replace(",", " ").split()]
