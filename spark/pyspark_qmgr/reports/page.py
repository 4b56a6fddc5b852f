"""The page of reports: one self-contained HTML file, in light and dark colours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from pyspark_qmgr.reports import cells
from pyspark_qmgr.reports.report import Kind, Part, Row
from pyspark_qmgr.reports.run import Found, Outcome

FILE = "report.html"
_NUMBERS = {Kind.COUNT, Kind.BYTES, Kind.MS, Kind.RATE, Kind.SHARE, Kind.NUMBER}
_STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1c2330; --soft: #5b6575;
  --line: #d9dee6; --stripe: #f5f7fa; --mark: #0b62a8; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --ink: #e3e8ef; --soft: #9aa5b5;
  --line: #313947; --stripe: #1b212b; --mark: #7cc0ff; --bad: #ff9a92; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--back);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .25rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
a { color: var(--mark); text-decoration: none; }
a:hover { text-decoration: underline; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
.soft { color: var(--soft); margin: 0; }
.bad { color: var(--bad); overflow-wrap: anywhere; }
nav table td:first-child { white-space: nowrap; }
.wide { overflow: auto; max-height: 27rem; margin: .75rem 0; }
table { border-collapse: collapse; font-size: .85rem; width: max-content; max-width: none; }
nav { margin-top: 1rem; }
nav table { width: auto; }
th, td { padding: .2rem .75rem .2rem 0; text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap;
  position: sticky; top: 0; background: var(--back); box-shadow: inset 0 -1px var(--line); }
tbody tr:nth-child(even) { background: var(--stripe); }
td.number, th.number { text-align: right; white-space: nowrap; }
td { font-variant-numeric: tabular-nums; }
td.time { white-space: nowrap; }
td.name { overflow-wrap: anywhere; max-width: 22rem; }
figure { margin: .75rem 0; overflow-x: auto; }
figure svg { display: block; width: 100%; min-width: 36rem; max-width: 60rem; height: auto; }
svg text { font-family: system-ui, sans-serif !important; }
details { margin: .25rem 0; font-size: .85rem; }
summary { color: var(--soft); cursor: pointer; }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
"""
# The page does not load anything or run scripts, even if names of queues contain HTML.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Facts(NamedTuple):
    """A description of the data from which the reports were made."""

    made_at: str
    queue_managers: tuple[str, ...]
    # values by name: directory, queue_manager, snapshot_id, taken_at, turn, ...
    snapshots: tuple[Row, ...]
    options: Mapping[str, str]
    versions: Mapping[str, str]


def page(facts: Facts, outcomes: Sequence[Outcome]) -> str:
    """Returns the page as HTML."""
    body = "\n".join([*_head(facts), *_summary(outcomes), *_sections(outcomes), *_origin(facts)])
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_title(facts)}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n"
        "</body></html>\n"
    )


def _title(facts: Facts) -> str:
    names = [cells.text(name) for name in facts.queue_managers]
    if len(names) > 3:
        names = [*names[:3], f"{len(facts.queue_managers) - 3} more"]
    return escape(f"Queues of {', '.join(names)}" if names else "Queues")


def _head(facts: Facts) -> Iterator[str]:
    count = cells.of(len(facts.snapshots), "snapshot")
    managers = cells.of(len(facts.queue_managers), "queue manager")
    yield f"<h1>{_title(facts)}</h1>"
    yield f'<p class="soft">{count} of {managers}, read at {escape(facts.made_at)}</p>'


def _summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yields a line for each report with its main result."""
    yield "<nav><table><tbody>"
    for outcome in outcomes:
        name = escape(outcome.report.name)
        result = (
            f'<span class="bad">failed: {escape(outcome.error)}</span>'
            if outcome.error
            else escape(outcome.parts[0].title or "no rows")
        )
        yield f'<tr><td><a href="#{name}">{name}</a></td><td>{result}</td></tr>'
    yield "</tbody></table></nav>"


def _sections(outcomes: Iterable[Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        name = escape(outcome.report.name)
        yield f'<section><h2 id="{name}">{name}</h2>'
        yield f'<p class="soft">{escape(outcome.report.text)}</p>'
        if outcome.error:
            yield f'<p class="bad">This report failed: {escape(outcome.error)}</p>'
        for found in outcome.parts:
            yield from _part(found)
        yield "</section>"


def _part(found: Found) -> Iterator[str]:
    part = found.part
    yield f"<h3>{escape(found.title or f'No rows: {part.text}')}</h3>"
    if found.plot:
        yield f'<figure role="img" aria-label="{escape(found.title)}">{found.plot}</figure>'
    if found.rows:
        yield from table(part, found.rows)
    more = found.rows_total - len(found.rows)
    rest = f"{cells.count(more)} more in " if more else "all in "
    yield (
        f"<details><summary>each row is {escape(part.text)}; {cells.of(found.rows_total, 'row')}, "
        f"{rest}{escape(found.file)}</summary><dl>"
    )
    for column in part.columns:
        yield f"<dt>{escape(column.name)}</dt><dd>{escape(column.text)}</dd>"
    yield "</dl></details>"


def table(part: Part, rows: Iterable[Row]) -> Iterator[str]:
    """Yields a table of *rows* in which numbers are aligned."""
    classes = [_class(column.kind) for column in part.columns]
    yield '<div class="wide" tabindex="0"><table><thead><tr>'
    for column, kind in zip(part.columns, classes, strict=True):
        text = f"{column.name}: {column.text}"
        yield f'<th class="{kind}" title="{escape(text)}">{escape(_heading(column.name))}</th>'
    yield "</tr></thead><tbody>"
    for row in rows:
        row_cells = (
            f'<td class="{kind}">{escape(cells.cell(column.kind, row[column.name]))}</td>'
            for column, kind in zip(part.columns, classes, strict=True)
        )
        yield f"<tr>{''.join(row_cells)}</tr>"
    yield "</tbody></table></div>"


def _class(kind: Kind) -> str:
    if kind in _NUMBERS:
        return "number"
    return "name" if kind is Kind.TEXT else "time"


def _heading(name: str) -> str:
    """Returns the heading of the column *name*, without the unit that its cells show."""
    for unit, words in (("_ms", ""), ("_bytes", ""), ("_per_s", " per second")):
        if name.endswith(unit):
            name = name.removesuffix(unit) + words
    return name.replace("_", " ")


def _origin(facts: Facts) -> Iterator[str]:
    yield '<section><h2 id="origin">Data sources</h2>'
    if facts.snapshots:
        yield '<div class="wide" tabindex="0"><table><thead><tr>'
        yield "".join(f"<th>{escape(key.replace('_', ' '))}</th>" for key in facts.snapshots[0])
        yield "</tr></thead><tbody>"
        for row in facts.snapshots:
            row_cells = (f'<td class="name">{escape(str(value))}</td>' for value in row.values())
            yield f"<tr>{''.join(row_cells)}</tr>"
        yield "</tbody></table></div>"
    yield "<dl>"
    for key, value in {**facts.options, **facts.versions}.items():
        yield f"<dt>{escape(key)}</dt><dd><code>{escape(value)}</code></dd>"
    yield "</dl></section>"
