"""The report: results compared with targets, tables in Markdown, and a picture of each row.

The report is written into other pages between two markers, so the text around it is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from qmgr_bench.own.rows import OWN_ROWS
from qmgr_bench.picture import picture
from qmgr_bench.rows import BEST, OURS, ROWS, Factor
from qmgr_bench.target import Target, at_least, at_most, number

START, END = "<!-- benchmark -->", "<!-- /benchmark -->"
Entry = Mapping[str, Any]
Found = Mapping[str, Any]  # the content of the JSON file
REACHED = "targets reached"
# Columns of text are aligned to the left, columns of numbers to the right.
WORDS = {"work", "server", "targets", REACHED}
COLUMNS = {
    "messages_per_second": "msg/s",
    "spread": "lowest - highest",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "server_cpu_us": "server CPU us/msg",
    "generator_cpu_us": "generator CPU us/msg",
    "messages_per_flush": "msg per flush",
    "ratio": "qmgrd / server",
}


def of_row(entries: Sequence[Entry], row: str) -> tuple[Entry | None, list[Entry]]:
    """Returns our entry and the entries of the peers, best first."""
    here = [entry for entry in entries if entry["row"] == row]
    ours = next((entry for entry in here if entry["server"] == OURS), None)
    peers = [entry for entry in here if entry["server"] != OURS]
    return ours, sorted(peers, key=lambda entry: -entry["messages_per_second"])


def targets(found: Found) -> dict[str, list[Target]]:
    """Returns the targets of each measured row."""
    rows = dict.fromkeys(entry["row"] for entry in found["rows"])
    own = {entry["row"]: [Target(**facts) for facts in entry["targets"]] for entry in found["own"]}
    return {row: list(_targets(found["rows"], row)) for row in rows} | own


def _targets(entries: Sequence[Entry], row: str) -> Iterator[Target]:
    """Yields the targets of *row* whose references were measured."""
    ours, peers = of_row(entries, row)
    if ours is None:
        return
    for factor in ROWS[row].factors:
        ratio = _ratio(ours, peers, factor)
        if ratio is not None:
            yield at_least(f"msg/s, relative to {factor.of}", round(ratio, 3), factor.times)
    limit = ROWS[row].cpu_us_max
    if limit is not None:
        yield at_most("CPU per message", ours["server_cpu_us"], limit, "us")


def _ratio(ours: Entry, peers: Sequence[Entry], factor: Factor) -> float | None:
    """Returns the ratio of our rate to the rate of the reference in *factor*."""
    if factor.of in ROWS:
        beside: float | None = ours.get("beside", {}).get(factor.of)
        return beside
    for peer in peers:
        if factor.of in (BEST, peer["server"]):
            ratio: float | None = peer.get("ratio")
            return ratio
    return None


def about(row: str) -> str:
    """Returns the description of *row*."""
    return ROWS[row].about if row in ROWS else OWN_ROWS[row].about


def reached(judged: Sequence[Target]) -> str:
    """Returns the number of reached targets, and the result of each missed target."""
    if not judged:
        return "-"
    missed = [target.cells() for target in judged if not target.reached]
    words = [f"{len(judged) - len(missed)} of {len(judged)}"]
    words += [f"{cells['what']}: {cells['measured']}, {cells['verdict']}" for cells in missed]
    return "; ".join(words)


def overview(found: Found) -> str:
    """Returns tables with a line for each row: our result, the best peer, and the targets."""
    judged, lines, own = targets(found), [], []
    for row in judged:
        ours, peers = of_row(found["rows"], row)
        if row in OWN_ROWS:
            own.append([f"{row}: {about(row)}", reached(judged[row])])
        elif ours is not None:
            best = (
                f"{_cell(peers[0]['messages_per_second'])} ({peers[0]['server']})" if peers else "-"
            )
            lines.append(
                [
                    f"{row}: {about(row)}",
                    _cell(ours["messages_per_second"]),
                    f"{_cell(ours.get('p50_ms'))} / {_cell(ours.get('p99_ms'))}",
                    best,
                    _cell(peers[0].get("ratio") if peers else None),
                    reached(judged[row]),
                ]
            )
    titles = ["work", "qmgrd msg/s", "p50 / p99 ms", "best peer msg/s", "ratio", REACHED]
    tables = [_table(titles, lines)] if lines else []
    return "\n".join(tables + ([_table(["work without peers", REACHED], own)] if own else []))


def details(found: Found, images: str) -> str:
    """Returns the picture, the tables and the targets of each row.

    The pictures are in the directory *images*.
    """
    own = {entry["row"]: entry for entry in found["own"]}
    parts = []
    for row, judged in targets(found).items():
        tables = _own_tables(own[row]["figures"]) if row in own else _server_table(found, row)
        goals = "".join(
            "* {what}: {measured} ({target}), {verdict}\n".format(**target.cells())
            for target in judged
        )
        parts.append(
            f"### {row}: {about(row)}\n\n![{row}]({images}/bench-{row}.svg)\n\n{tables}"
            + (f"\n{goals}" if goals else "")
        )
    return "\n".join(parts)


def _server_table(found: Found, row: str) -> str:
    lines = []
    for entry in _in_order(found, row):
        shown = {**entry, "spread": f"{entry['lowest']:,.0f} - {entry['highest']:,.0f}"}
        name = entry["server"] + (" (cut)" if entry["is_cut"] else "")
        lines.append([name, *(_cell(shown.get(key)) for key in COLUMNS)])
    return _table(["server", *COLUMNS.values()], lines)


def _in_order(found: Found, row: str) -> list[Entry]:
    ours, peers = of_row(found["rows"], row)
    return ([] if ours is None else [ours]) + peers


def _own_tables(figures: Mapping[str, Any]) -> str:
    """Returns the single figures as one table, and each series as another."""
    plain = {key: value for key, value in figures.items() if not isinstance(value, list)}
    tables = [_table(["figure", ""], [[key, _cell(value)] for key, value in plain.items()])]
    for points in (value for value in figures.values() if isinstance(value, list) and value):
        keys = [key for key, value in points[0].items() if not isinstance(value, list)]
        tables.append(_table(keys, [[_cell(point[key]) for key in keys] for point in points]))
    return "\n".join(tables if plain else tables[1:])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, int | float) else str(value)


def _table(titles: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    sides = ["---" if at == 0 or title in WORDS else "---:" for at, title in enumerate(titles)]
    rows = [titles, sides, *lines]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def conditions(found: Found) -> str:
    """Returns a paragraph about the conditions of the measurement."""
    machine = found["machine"]
    syncs = [run["disk_sync_ms"] for run in (*found["runs"], *found["own"])]
    versions = ", ".join(
        f"{name} {version}" if name not in version.lower() else version
        for name, version in found["versions"].items()
    )
    scale = (
        "" if found["scale"] == 1 else f", at scale {found['scale']:g} (targets are for scale 1)"
    )
    counted = (
        ""
        if any(run["flushes"] is not None for run in found["runs"])
        else (" The device does not count its flushes.")
    )
    return (
        f"Measured {machine['at'][:10]} on {machine['cores']} cores, {machine['system']}, Python "
        f"{machine['python']}, load {machine['load_before']:.1f} before: {versions}. Medians of "
        f"{found['rounds']} rounds of {found['seconds']:g} s{scale}. 512 B and an fdatasync took "
        f"{min(syncs):g} to {max(syncs):g} ms.{counted}\n"
    )


def markdown(found: Found, images: str) -> str:
    """Returns the whole report as Markdown."""
    return (
        f"{conditions(found)}\n{overview(found)}\n"
        "*p50, p99*: of puts, or of acks in rows without puts. *msg per flush*: messages per "
        "cache flush that the disk counted in the runs. *(cut)*: stopped before the end; the rate "
        "is of the finished work. *ratio*: the median of the ratios within each round.\n\n"
        f"{details(found, images)}"
    )


def draw(found: Found, directory: Path) -> None:
    """Writes a picture of each row into *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    drawn = {entry["row"]: (entry["unit"], entry["bars"]) for entry in found["own"]}
    for row in dict.fromkeys(entry["row"] for entry in found["rows"]):
        bars = [
            (entry["server"], entry["messages_per_second"], entry["server"] == OURS)
            for entry in _in_order(found, row)
        ]
        drawn[row] = "messages per second, median", bars
    for row, (unit, bars) in drawn.items():
        svg = picture(f"{row}: {about(row)}", unit, bars)
        (directory / f"bench-{row}.svg").write_text(svg)


def between_markers(text: str, new: str) -> str:
    """Returns *text* with *new* between the two markers.

    Raises:
        ValueError: A marker is missing.
    """
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the text does not contain both markers, {START} and {END}")
    return f"{before}{start}\n{new.strip()}\n{end}{after}"


def publish(found: Found, repository: Path) -> None:
    """Writes the report, the pictures and the README's table into *repository*.

    Raises:
        ValueError: A page has no markers.
        OSError: A page is missing.
    """
    documents = {
        repository / "docs/benchmarks.md": markdown(found, "img"),
        repository / "README.md": conditions(found) + "\n" + overview(found),
    }
    texts = {path: between_markers(path.read_text(), new) for path, new in documents.items()}
    draw(found, repository / "docs/img")
    for path, text in texts.items():
        path.write_text(text)
