"""The benchmark's own rows: what no peer is asked for, each with its target.

Each row measures beside its own reference, in turns within each round, on a disk and a machine that
drift: what counts are medians of ratios. A row that is done is written down at once.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qmgr_protocol.errors import RequestError
from qmgr_tools import output
from qmgr_tools.bench_own_big import big
from qmgr_tools.bench_own_depth import start, ten_million, w4_own
from qmgr_tools.bench_own_dup import dup
from qmgr_tools.bench_own_host import LoadFailed
from qmgr_tools.bench_own_link import link
from qmgr_tools.bench_own_report import markdown, series_csv, target_cells
from qmgr_tools.bench_own_result import Result, Setting
from qmgr_tools.bench_own_wide import c1000
from qmgr_tools.bench_peers import busy_warning, disk_sync_ms, machine
from qmgr_tools.failure import Exit

LINE_EVERY_S = 5.0  # where no terminal shows how far it is


@dataclass(frozen=True, slots=True)
class Row:
    """A piece of work."""

    about: str
    run: Callable[[Setting], Result]


ROWS = {
    "W4-own": Row("W1b at depth 1,000,000 beside W1b on an empty store", w4_own),
    "10M": Row(
        "10,000,000 queued: start, memory, puts and gets beside an empty queue", ten_million
    ),
    "C1000": Row("1,000 connections with one put in flight each, beside W1b", c1000),
    "BIG": Row("1 % of the messages have 64 KiB to 4 MiB: turns, p99 of the others", big),
    "LINK": Row("one link: a backlog, and a live stream, beside W1b and W3", link),
    "DUP": Row("the check for duplicates at depth 10 to 1,000,000, beside a search", dup),
    "START": Row("start and memory at depth 0 to 1,000,000", start),
}
COLUMNS = (
    output.text("row"),
    output.long_text("what"),
    output.count("measured"),
    output.text("target"),
    output.text("verdict"),
)


def run(name: str, setting: Setting) -> dict[str, Any]:
    """Run the row *name* and return what it found, for JSON.

    Raises:
        LoadFailed: a daemon did not do what it was asked.
    """
    load = os.getloadavg()[0]
    sync_ms = disk_sync_ms(setting.directory)
    start_s = time.monotonic()
    with TemporaryDirectory(prefix="own-", dir=setting.directory) as directory:
        own = Setting(Path(directory), setting.seconds, setting.scale, setting.rounds, setting.say)
        result: Any = ROWS[name].run(own)
    return {
        "row": name, "about": ROWS[name].about, "machine": machine(load), "disk_sync_ms": sync_ms,
        "seconds": setting.seconds, "scale": setting.scale, "rounds": setting.rounds,
        "took_s": round(time.monotonic() - start_s, 1),
        "targets": [target.facts() for target in result.targets()], "figures": asdict(result),
    }  # fmt: skip


def known_runs(path: Path) -> list[dict[str, Any]]:
    """Return the runs in *path*; none where there is no such file.

    Raises:
        LoadFailed: what is there was not written by this.
    """
    try:
        runs = json.loads(path.read_text())["runs"]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise LoadFailed(f"{path} holds no runs of these rows: move it away") from error
    return list(runs)


def append(path: Path, found: dict[str, Any]) -> None:
    """Add a run to those in *path*; write all as a table beside it, and a series for a plot."""
    runs = [*known_runs(path), found]
    path.write_text(json.dumps({"runs": runs}, indent=2) + "\n")
    path.with_suffix(".md").write_text(markdown(runs, list(ROWS)))
    if series := series_csv(found["figures"]):
        path.with_name(f"{path.stem}_{found['row']}.csv").write_text(series)


class Telling:
    """How far it is: one line that changes on a terminal, elsewhere a line from time to time."""

    def __init__(self) -> None:
        self._told_s = -LINE_EVERY_S

    def say(self, words: str) -> None:
        """Tell *words*."""
        if sys.stderr.isatty():
            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{words[:room]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._told_s + LINE_EVERY_S:
            self._told_s = time.monotonic()
            output.note(words)

    def end(self) -> None:
        """Take the line away."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the rows, print and write what they found; return the exit code."""
    options = parse(arguments, os.environ)
    if warning := busy_warning(os.getloadavg()[0]):
        output.note(warning)
    telling = Telling()
    directory = options.dir.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    setting = Setting(directory, options.seconds, options.scale, options.rounds, telling.say)
    shown: list[dict[str, Any]] = []
    name = "the benchmark"
    try:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        known_runs(options.json)
        for name in options.rows:
            found = run(name, setting)
            append(options.json, found)
            shown += lines(found)
            telling.end()
            output.note(f"{name} took {found['took_s']:,} s")
    except (LoadFailed, RequestError, OSError) as error:
        telling.end()
        print(f"error: {name} stopped -- {error} -- run it again, or see --help", file=sys.stderr)
        return Exit.FAILED
    except KeyboardInterrupt:
        telling.end()
        return Exit.INTERRUPTED
    finally:
        if shown:
            output.table(COLUMNS, shown)
    if options.rows:
        output.note(f"added to {options.json}, as a table in {options.json.with_suffix('.md')}")
    return 0


def lines(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the targets of a run as lines of a table."""
    return [
        {"row": found["row"]} | dict(zip(("what", "measured", "target", "verdict"), cells,
                                         strict=True))
        for cells in map(target_cells, found["targets"])
    ]  # fmt: skip


def parse(arguments: Sequence[str] | None, environment: Mapping[str, str]) -> argparse.Namespace:
    """Return the options; ends the process with a text where they are wrong."""
    rows = "\n".join(f"  {name:7} {row.about}" for name, row in ROWS.items())
    parser = argparse.ArgumentParser(
        prog="python -m qmgr_tools.bench_own",
        description=f"The benchmark's own rows, each with its target:\n\n{rows}",
        epilog="ROWS, SECONDS and SCALE in the environment do as the options.\n\n"
        "examples:\n"
        "  python -m qmgr_tools.bench_own --rows C1000 LINK\n"
        "  ROWS=10M SCALE=0.1 python -m qmgr_tools.bench_own  # a tenth of it",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        default=[environment.get("ROWS", "")],
        metavar="ROW",
        help="by default all",
    )
    parser.add_argument("--others", action="store_true", help="pass over the names of other rows")
    parser.add_argument("--seconds", type=float, default=environment.get("SECONDS") or "4",
                        help="how long each measurement puts (4)")  # fmt: skip
    parser.add_argument("--scale", type=float, default=environment.get("SCALE") or "1",
                        help="of all depths and connections (1)")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="of which medians are taken (3)")
    parser.add_argument("--dir", type=Path, default=Path("build/bench"),
                        help="a directory on the disk to measure (build/bench)")  # fmt: skip
    parser.add_argument("--json", type=Path, default=Path("build/bench_own.json"),
                        help="where runs are added (build/bench_own.json)")  # fmt: skip
    options = parser.parse_args(arguments)
    named = [word for text in options.rows for word in text.replace(",", " ").split()]
    unknown = [word for word in named if word not in ROWS]
    if unknown and not options.others:
        parser.error(f"{unknown[0]!r} is none of {', '.join(ROWS)}")
    options.rows = [word for word in named if word in ROWS] if named else list(ROWS)
    if options.seconds <= 0 or options.scale <= 0 or options.rounds < 1:
        parser.error("--seconds, --scale and --rounds are to be positive")
    return options


if __name__ == "__main__":
    sys.exit(main())
