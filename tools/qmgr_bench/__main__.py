"""``make bench``: measures qmgrd next to the installed durable servers, and on its own."""

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

from qmgr_bench import report
from qmgr_bench.compare import SERVERS, compare, summary, time_left
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.rows import OWN_ROWS, guess_s, run_own
from qmgr_bench.progress_line import ProgressLine
from qmgr_bench.rows import OURS, ROWS, SECONDS
from qmgr_bench.setting import Setting
from qmgr_protocol.errors import RequestError
from qmgr_tools.cli import humanize as humanize
from qmgr_tools.cli import output
from qmgr_tools.cli.failure import Exit

LOAD_QUIET = 0.7  # 1-minute load average above which the machine counts as busy
COLUMNS = (
    output.text("row"),
    output.text("server"),
    output.count("messages_per_second", "MSG/S"),
    output.count("lowest"),
    output.count("highest"),
    output.count("p50_ms", "P50 MS"),
    output.count("p99_ms", "P99 MS"),
    output.count("server_cpu_us", "CPU US"),
    output.count("generator_cpu_us", "LOAD US"),
    output.count("messages_per_flush", "MSG/FLUSH"),
    output.count("ratio", "QMGRD/IT"),
)
TARGETS = (
    output.text("row"),
    output.long_text("what"),
    output.count("measured"),
    output.text("target"),
    output.text("verdict"),
)
ABOUT = (
    "Measures qmgrd next to the installed durable servers, with equal work, and then on its own:"
)
EPILOG = (
    "The environment variables ROWS, PEERS, SECONDS and SCALE work like the options. "
    "The full run takes\n"
    "about 35 minutes and 8 GiB. Ctrl-C ends it and keeps the finished runs.\n\n"
    "examples:\n"
    "  python -m qmgr_bench --rows W1b W4 --peers redis\n"
    "  ROWS=10M,START SCALE=0.1 python -m qmgr_bench"
)


def busy_warning(load: float) -> str:
    """Returns a warning if the machine is busy at the start, otherwise ""."""
    if load < LOAD_QUIET:
        return ""
    return f"warning: this machine is busy (load {load:.1f}); only the ratios are meaningful"


def machine(load: float) -> dict[str, Any]:
    """Returns the conditions of the measurement.

    *load* is the average load of the minute before the start.
    """
    return {
        "load_before": round(load, 2),
        "at": humanize.rfc3339(time.time_ns() // 1000),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def asked(rows: Sequence[str], peers: Sequence[str]) -> list[str]:
    """Returns the *peers* that take part in *rows*."""
    if any(row in ROWS for row in rows):
        return [*peers]
    beside = {peer for row in rows for peer in OWN_ROWS[row].peers}
    return [peer for peer in peers if peer in beside]


def installed(peers: Sequence[str]) -> dict[str, str]:
    """Returns the versions of qmgrd and of the *peers* that are installed."""
    versions = {}
    for server in SERVERS:
        if server.name not in (OURS, *peers):
            continue
        version = server.version()
        if version is None:
            output.note(f"{server.name} is not installed and is skipped")
        else:
            output.note(f"{server.name}: {version}; {server.about}")
            versions[server.name] = version
    return versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the rows, or publishes the results of the last run. Returns the exit code."""
    options = parse(arguments, os.environ)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # The interrupt stops all servers.
    if options.publish:
        return publish(options.json)
    found = {
        "machine": machine(os.getloadavg()[0]),
        "versions": installed(asked(options.rows, options.peers)),
        "seconds": options.seconds,
        "rounds": options.rounds,
        "scale": options.scale,
        "rows": [],
        "runs": [],
        "own": [],
    }
    code = measure(options, found)
    if found["runs"] or found["own"]:
        show(found)
        output.note(f"written to {options.json} and {options.json.with_suffix('.md')}")
    if warning := busy_warning(found["machine"]["load_before"]):
        output.note(warning)
    return code


def measure(options: argparse.Namespace, found: dict[str, Any]) -> int:
    """Measures the rows. Writes the results in *found* to the file after each run.

    Returns the exit code.
    """
    progress_line = ProgressLine()
    setting = Setting(
        options.dir.absolute(),
        options.seconds,
        options.rounds,
        options.scale,
        progress_line.say,
        progress_line.note,
        tuple(found["versions"]),
    )
    servers = [server for server in SERVERS if server.name in found["versions"]]
    own = [row for row in options.rows if row in OWN_ROWS]
    rest_s = sum(guess_s(row, setting) for row in own)
    try:
        rows = [row for row in options.rows if row in ROWS]
        for run in compare(servers, rows, setting, rest_s) if rows else ():
            found["runs"].append(run)
            found["rows"] = summary(found["runs"])
            write(options.json, found)
        return measure_own(own, setting, options.json, found)
    except (LoadFailed, OSError) as error:
        progress_line.end()
        print(f"error: the benchmark stopped -- {error} -- run it again", file=sys.stderr)
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    finally:
        progress_line.end()


def measure_own(rows: Sequence[str], setting: Setting, path: Path, found: dict[str, Any]) -> int:
    """Measures *rows*, which have no peers. If one row fails, the others still run."""
    code = 0
    for at, row in enumerate(rows):
        left = time_left(sum(guess_s(name, setting) for name in rows[at:]))
        setting.note(f"{row}: {OWN_ROWS[row].about}; {left}")
        try:
            found["own"].append(run_own(row, setting))
            write(path, found)
        except (LoadFailed, RequestError, OSError) as error:
            setting.note(
                f"error: {row} stopped -- {error} -- run it again with make bench ROWS={row}"
            )
            code = Exit.FAILED
    return code


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Writes the results to *path*, and tables and pictures next to that file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    targets = {
        row: [asdict(target) | {"reached": target.reached} for target in judged]
        for row, judged in report.targets(found).items()
    }
    path.write_text(json.dumps({**found, "targets": targets}, indent=2) + "\n")
    path.with_suffix(".md").write_text(report.markdown(found, "img"))
    report.draw(found, path.parent / "img")


def show(found: Mapping[str, Any]) -> None:
    """Prints the results."""
    judged = report.targets(found)
    for row in judged:
        output.say(f"{row:6} {report.about(row)}")
    if found["rows"]:
        output.table(COLUMNS, found["rows"])
    lines = [{"row": row} | target.cells() for row in judged for target in judged[row]]
    if lines:
        output.table(TARGETS, lines)


def publish(path: Path) -> int:
    """Copies the last report into the pages of the current repository."""
    try:
        report.publish(json.loads(path.read_text()), Path.cwd())
    except (OSError, ValueError) as error:
        print(f"error: cannot publish {path} -- {error} -- run make bench", file=sys.stderr)
        return Exit.FAILED
    output.note("written to docs/benchmarks.md, docs/img and README.md")
    return 0


def parse(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> argparse.Namespace:
    """Returns the options, or exits with an error message if they are invalid."""
    peers = [server.name for server in SERVERS if server.name != OURS]
    all_rows = {row: report.about(row) for row in (*ROWS, *OWN_ROWS)}
    rows = "\n".join(f"  {row:7} {about}" for row, about in all_rows.items())
    parser = _parser(peers, rows, environment)
    options = parser.parse_args(arguments)
    options.rows = _words(options.rows) or list(all_rows)
    options.peers = _words(options.peers) or peers
    for given, known in ((options.rows, [*all_rows]), (options.peers, [*peers, "none", OURS])):
        if unknown := [word for word in given if word not in known]:
            parser.error(f"{unknown[0]!r} is not one of {', '.join(known)}")
    if not (0 < options.seconds < inf and 0 < options.scale < inf and options.rounds > 0):
        parser.error("--seconds, --scale and --rounds must be positive numbers")
    return options


def _parser(
    peers: Sequence[str], rows: str, environment: Mapping[str, str]
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m qmgr_bench",
        description=f"{ABOUT}\n\n{rows}",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--rows",
        nargs="+",
        default=[environment.get("ROWS", "")],
        metavar="ROW",
        help="rows to run, from the list above; default: all",
    )
    add(
        "--peers",
        nargs="+",
        default=[environment.get("PEERS", "")],
        metavar="PEER",
        help=f"peers to measure, from {', '.join(peers)}, or none; default: all",
    )
    add(
        "--seconds",
        type=float,
        default=environment.get("SECONDS") or SECONDS,
        help="duration of the puts in each run",
    )
    add(
        "--scale",
        type=float,
        default=environment.get("SCALE") or 1.0,
        help="factor for all queue depths and numbers of connections; targets apply only at 1",
    )
    add("--rounds", type=int, default=3, help="number of rounds; results are their medians (3)")
    add("--dir", type=Path, default=Path("build/bench"), help="directory on the disk to measure")
    add(
        "--json",
        type=Path,
        default=Path("build/bench.json"),
        help="output file; tables and pictures are written next to it",
    )
    add(
        "--publish",
        action="store_true",
        help="copy the last report into docs/ and README.md without measuring",
    )
    return parser


def _words(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in text.replace(",", " ").split()]


if __name__ == "__main__":
    sys.exit(main())
