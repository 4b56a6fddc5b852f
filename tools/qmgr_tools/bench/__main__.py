"""``make bench``: qmgrd beside the durable servers that are installed here, on equal work."""

import argparse
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qmgr_tools import humane, output
from qmgr_tools.bench import report
from qmgr_tools.bench.compare import SERVERS, compare, summary
from qmgr_tools.bench.load import LoadFailed
from qmgr_tools.bench.rows import OURS, ROWS, SECONDS
from qmgr_tools.failure import Exit

LOAD_QUIET = 0.7  # processes that ran in the minute before
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
        if server.name not in (OURS, *peers):
            continue
        version = server.version()
        if version is None:
            output.note(f"{server.name} is not installed here: left out")
        else:
            output.note(f"{server.name}: {version}; {server.about}")
            versions[server.name] = version
    return versions


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, or publish the last one; return the exit code."""
    options = parse(arguments, os.environ)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no server is left
    if options.publish:
        return publish(options.json)
    found = {
        "machine": machine(os.getloadavg()[0]), "versions": installed(options.peers),
        "seconds": options.seconds, "rounds": options.rounds, "rows": [], "runs": [],
    }  # fmt: skip
    code = measure(options, found)
    if found["runs"]:
        show(found)
        output.note(f"written to {options.json} and {options.json.with_suffix('.md')}")
    if warning := busy_warning(found["machine"]["load_before"]):
        output.note(warning)
    return code


def measure(options: argparse.Namespace, found: dict[str, Any]) -> int:
    """Measure into *found*, and write that down after each run; return the exit code."""
    servers = [server for server in SERVERS if server.name in found["versions"]]
    runs = compare(
        servers, options.rows, options.seconds, options.rounds, options.dir.absolute(), output.note
    )
    try:
        for run in runs:
            found["runs"].append(run)
            found["rows"] = summary(found["runs"])
            write(options.json, found)
    except (LoadFailed, OSError) as error:
        print(f"error: the benchmark stopped -- {error} -- run it again", file=sys.stderr)
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return 0


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Write all to *path*, and tables and pictures beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    targets = {row: report.verdicts(found["rows"], row) for row in ROWS}
    text = json.dumps({**found, "targets": {k: v for k, v in targets.items() if v}}, indent=2)
    path.write_text(text + "\n")
    path.with_suffix(".md").write_text(report.markdown(found, "img"))
    report.draw(found["rows"], path.parent / "img")


def show(found: Mapping[str, Any]) -> None:
    """Print what was found."""
    rows = list(dict.fromkeys(entry["row"] for entry in found["rows"]))
    for name in rows:
        output.say(f"{name:6} {ROWS[name].about}")
    output.table(COLUMNS, found["rows"])
    for name in rows:
        for verdict in report.verdicts(found["rows"], name):
            output.say(f"{name:6} {report.in_words(verdict)}")


def publish(path: Path) -> int:
    """Put the last comparison into the documents of the repository we are in."""
    try:
        report.publish(json.loads(path.read_text()), Path.cwd())
    except (OSError, ValueError) as error:
        print(f"error: cannot publish {path} -- {error} -- run make bench", file=sys.stderr)
        return Exit.FAILED
    output.note("written to docs/benchmarks.md, docs/img and README.md")
    return 0


def parse(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> argparse.Namespace:
    """Return the options; ends the process with a text where they are wrong."""
    peers = [server.name for server in SERVERS if server.name != OURS]
    parser = argparse.ArgumentParser(
        prog="python -m qmgr_tools.bench",
        description="qmgrd beside the durable servers that are installed here, on equal work.",
        epilog="ROWS, PEERS and SECONDS in the environment do as the options. All of it takes "
        "about 25 minutes; Ctrl-C ends it and keeps what there is.",
    )
    add = parser.add_argument
    add("--rows", nargs="+", default=[environment.get("ROWS", "")],
        help=f"of {', '.join(ROWS)}; by default all")  # fmt: skip
    add("--peers", nargs="+", default=[environment.get("PEERS", "")],
        help=f"of {', '.join(peers)}, or none; by default all")  # fmt: skip
    add("--seconds", type=float, default=environment.get("SECONDS") or SECONDS,
        help="how long each run puts")  # fmt: skip
    add("--rounds", type=int, default=3)
    add("--dir", type=Path, default=Path("build/bench"), help="a directory on the disk to measure")
    add("--json", type=Path, default=Path("build/bench.json"),
        help="what to write; tables and pictures go beside it")  # fmt: skip
    add("--publish", action="store_true",
        help="measure nothing; put the last report into docs/ and README.md")  # fmt: skip
    options = parser.parse_args(arguments)
    options.rows = _words(options.rows) or list(ROWS)
    options.peers = _words(options.peers) or peers
    for given, known in ((options.rows, [*ROWS]), (options.peers, [*peers, "none", OURS])):
        if unknown := [word for word in given if word not in known]:
            parser.error(f"{unknown[0]!r} is none of {', '.join(known)}")
    if options.seconds <= 0 or options.rounds < 1:
        parser.error("--seconds and --rounds are to be positive")
    return options


def _words(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in text.replace(",", " ").split()]


if __name__ == "__main__":
    sys.exit(main())
