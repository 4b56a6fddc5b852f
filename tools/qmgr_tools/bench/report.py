"""What a comparison found: verdicts on the targets, tables in Markdown, and a picture of each row.

Tables go into other documents between two markers, so that text stays around them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qmgr_tools.bench.picture import picture
from qmgr_tools.bench.rows import BEST, OURS, ROWS, Target

START, END = "<!-- benchmark -->", "<!-- /benchmark -->"
WORDS = {"work", "server", "targets"}  # Columns of words; numbers stand to the right.
Entry = Mapping[str, Any]
COLUMNS = {
    "messages_per_second": "msg/s", "spread": "lowest - highest", "p50_ms": "p50 ms",
    "p99_ms": "p99 ms", "server_cpu_us": "server CPU us/msg",
    "generator_cpu_us": "generator CPU us/msg", "messages_per_flush": "msg a flush",
    "ratio": "qmgrd / it",
}  # fmt: skip


def of_row(entries: Sequence[Entry], row: str) -> tuple[Entry | None, list[Entry]]:
    """Return our entry and those of the peers, the best first."""
    here = [entry for entry in entries if entry["row"] == row]
    ours = next((entry for entry in here if entry["server"] == OURS), None)
    peers = [entry for entry in here if entry["server"] != OURS]
    return ours, sorted(peers, key=lambda entry: -entry["messages_per_second"])


def verdicts(entries: Sequence[Entry], row: str) -> list[dict[str, Any]]:
    """Return of each target of *row*: what is to be, what is, and whether that reaches it."""
    ours, peers = of_row(entries, row)
    if ours is None:
        return []
    found = []
    for target in ROWS[row].targets:
        rate = _rate(entries, peers, target)
        if rate is not None:
            is_ = ours["messages_per_second"] / rate
            found.append(_verdict(f"{target.factor} x {target.of}", is_, is_ / target.factor, "x"))
    limit = ROWS[row].cpu_us_max
    if limit is not None:
        used = ours["server_cpu_us"]
        found.append(_verdict(f"at most {limit:g} us CPU", used, limit / max(used, 0.01), " us"))
    return found


def _rate(entries: Sequence[Entry], peers: list[Entry], target: Target) -> float | None:
    """Return the rate that *target* is a multiple of, or None where nobody measured it."""
    if target.of in ROWS:
        ours, _ = of_row(entries, target.of)
        rates = [] if ours is None else [ours["messages_per_second"]]
    else:
        rates = [p["messages_per_second"] for p in peers if target.of in (BEST, p["server"])]
    return rates[0] if rates else None


def _verdict(target: str, is_: float, reached: float, unit: str) -> dict[str, Any]:
    words = "reached" if reached >= 1 else f"{(1 - reached) * 100:.0f} % short"
    return {"target": target, "is": f"{is_:.2f}{unit}", "verdict": words, "part": round(reached, 3)}


def in_words(verdict: Mapping[str, Any]) -> str:
    """Return a verdict as a phrase."""
    return f"{verdict['target']}: {verdict['is']}, {verdict['verdict']}"


def overview(entries: Sequence[Entry]) -> str:
    """Return a table with a line for each row: ours, the best peer, the targets."""
    lines = []
    for row in dict.fromkeys(entry["row"] for entry in entries):
        ours, peers = of_row(entries, row)
        if ours is None:
            continue
        best, ratio = "-", "-"
        if peers:
            best = f"{peers[0]['messages_per_second']:,.0f} ({peers[0]['server']})"
            ratio = f"{peers[0]['ratio']:.2f}"
        work = f"{row}: {ROWS[row].about}"
        latency = f"{ours.get('p50_ms', '-')} / {ours.get('p99_ms', '-')}"
        lines.append([
            work, f"{ours['messages_per_second']:,.0f}", latency, best, ratio,
            "; ".join(map(in_words, verdicts(entries, row))) or "-",
        ])  # fmt: skip
    return _table(
        ["work", "qmgrd msg/s", "p50 / p99 ms", "best peer msg/s", "ratio", "targets"], lines
    )


def details(entries: Sequence[Entry], images: str) -> str:
    """Return a table and a picture, found below *images*, for each row."""
    parts = []
    for row in dict.fromkeys(entry["row"] for entry in entries):
        ours, peers = of_row(entries, row)
        lines = []
        for entry in ([] if ours is None else [ours]) + peers:
            shown = {**entry, "spread": f"{entry['lowest']:,.0f} - {entry['highest']:,.0f}"}
            name = entry["server"] + (" (cut)" if entry["is_cut"] else "")
            lines.append([name, *(_cell(shown.get(key)) for key in COLUMNS)])
        goals = "".join(f"* {in_words(verdict)}\n" for verdict in verdicts(entries, row))
        parts.append(
            f"### {row}: {ROWS[row].about}\n\n![{row}]({images}/bench-{row}.svg)\n\n"
            + _table(["server", *COLUMNS.values()], lines) + (f"\n{goals}" if goals else "")
        )  # fmt: skip
    return "\n".join(parts)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if value >= 1_000 else f"{value:g}"
    return str(value)


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [titles, ["---" if title in WORDS else "---:" for title in titles], *lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def conditions(found: Mapping[str, Any]) -> str:
    """Return a paragraph: where and how the figures were measured."""
    machine = found["machine"]
    syncs = [run["disk_sync_ms"] for run in found["runs"]]
    versions = ", ".join(f"{name} {version}" if name not in version.lower() else version
                         for name, version in found["versions"].items())  # fmt: skip
    counted = "" if any(run["flushes"] is not None for run in found["runs"]) else (
        " The device does not count its flushes here."
    )  # fmt: skip
    return (
        f"Measured {machine['at'][:10]} on {machine['cores']} cores, {machine['system']}, Python "
        f"{machine['python']}, load {machine['load_before']:.1f} before: {versions}. Medians of "
        f"{found['rounds']} rounds of {found['seconds']:g} s. 512 B and an fdatasync took "
        f"{min(syncs):g} to {max(syncs):g} ms.{counted}\n"
    )


def markdown(found: Mapping[str, Any], images: str) -> str:
    """Return the whole report."""
    return (
        f"{conditions(found)}\n{overview(found['rows'])}\n"
        "*msg a flush*: messages for each cache flush that the disk counted in the runs. *(cut)*: "
        "not done in time, the rate is that of what was done.\n\n"
        f"{details(found['rows'], images)}"
    )


def draw(entries: Sequence[Entry], directory: Path) -> None:
    """Write a picture of each row into *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    for row in dict.fromkeys(entry["row"] for entry in entries):
        ours, peers = of_row(entries, row)
        bars = [
            (entry["server"], entry["messages_per_second"], entry["server"] == OURS)
            for entry in ([] if ours is None else [ours]) + peers
        ]
        svg = picture(f"{row}: {ROWS[row].about}", "messages a second, median", bars)
        (directory / f"bench-{row}.svg").write_text(svg)


def between_markers(text: str, new: str) -> str:
    """Return *text* with *new* between its markers.

    Raises:
        ValueError: it has no markers.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{START} and {END} are not both there")
    return f"{before}{start}\n{new.strip()}\n{end}{after}"


def publish(found: Mapping[str, Any], repository: Path) -> None:
    """Put the report, the pictures and the README's table in their places.

    Raises:
        ValueError: a document has no markers.
        OSError: it is not there.
    """
    documents = {
        repository / "docs/benchmarks.md": markdown(found, "img"),
        repository / "README.md": conditions(found) + "\n" + overview(found["rows"]),
    }
    texts = {path: between_markers(path.read_text(), new) for path, new in documents.items()}
    draw(found["rows"], repository / "docs/img")
    for path, text in texts.items():
        path.write_text(text)
