"""Prints the results of qmctl link doctor and explain for people.

A link without findings has one line. For other links, the findings, remedies and the progress
follow. Without a terminal, each finding and each link without findings is a row of a table.
"""

import sys
from typing import Any

from qmgr_tools.cli import connect_options, output
from qmgr_tools.cli.humanize import duration, messages, size

Row = dict[str, Any]
STYLES = {"ok": "green", "note": "dim", "warning": "yellow", "critical": "bold red"}
INDENT = 2
PATHS = (
    output.count("path"),
    output.text("state"),
    output.whole("address"),
    output.count("in_flight"),
    output.duration("oldest_ms", "OLDEST"),
    output.duration("rtt_ms", "ROUND TRIP"),
    output.Column("messages_per_s", "PER S", lambda rate: f"{rate:,.0f}", is_number=True),
    output.count("stalls"),
    output.long_text("fetches"),
    output.long_text("error"),
)
ROWS = (
    output.text("link"),
    output.text("verdict"),
    output.text("state"),
    output.count("waiting"),
    output.text("code", "FINDING"),
    output.text("severity"),
    output.text("what"),
    output.text("remedy"),
)


def show(found: Row, named: str | None = None) -> None:
    """Prints the diagnosis *found*, in full if the user *named* a link."""
    links = found["links"]
    if not sys.stdout.isatty():
        output.table(ROWS, [row for link in links for row in _rows(link)])
    elif not links:
        output.say("there are no outbound or inbound links")
    else:
        wide = max(len(link["link"]) for link in links)
        was_long = False
        for number, link in enumerate(links):
            is_long = bool(named or link["findings"])
            if number and (is_long or was_long):
                print()
            _print(link, wide, is_long=is_long, is_named=bool(named))
            was_long = is_long
    left = found["inbound_count"] - sum(len(link["inbound"]) for link in links)
    if left > 0:
        output.note(f"{left} more inbound links are not examined")


def show_paths(paths: list[Row], indent: int = 0) -> None:
    """Prints an empty line and a table of the *paths* of a link."""
    if not paths:
        return
    print()
    # The output above already shows the error of a single path.
    shown = paths if len(paths) > 1 else [paths[0] | {"error": ""}]
    used = [column for column in PATHS if any(column.cell(path) for path in shown)]
    output.table(used, shown, indent)


def _rows(link: Row) -> list[Row]:
    """Returns the rows of a link for output without a terminal."""
    own = {"link": link["link"], "verdict": link["verdict"], "state": link["state"]}
    own["waiting"] = (link["progress"] or {}).get("waiting")
    found = [f | {"remedy": connect_options.add_to(f["remedy"])} for f in link["findings"]]
    return [own | finding for finding in found] or [own]


def _print(link: Row, wide: int, *, is_long: bool, is_named: bool) -> None:
    verdict = link["verdict"]
    head = [
        (f"{link['link']:<{wide}}  ", "bold"),
        (f"{verdict:<8}  ", STYLES[verdict]),
        (state_of(link), ""),
    ]
    output.words(head, others=wide + 12)
    if not is_long:
        return
    for finding in link["findings"]:
        _print_finding(finding)
    if any(len(finding["choices"]) > 1 for finding in link["findings"]):
        more = connect_options.add_to(
            f"for causes and other remedies: qmctl link explain {link['link']}"
        )
        output.words([(more, "dim")], INDENT)
    is_at_rest = link["state"] in ("stopped", "refused")
    if link["paths"] and (is_named or not is_at_rest):
        output.words([(progress_of(link), "")], INDENT, INDENT)
    if is_named or (len(link["paths"]) > 1 and not is_at_rest):
        show_paths(link["paths"], INDENT)
    if is_named:
        for row in link["inbound"]:
            print()
            output.words([(_inbound(row), "")], INDENT, INDENT)


def _print_finding(finding: Row) -> None:
    style = STYLES[finding["severity"]]
    is_note = finding["severity"] == "note"
    head = [(f"{finding['code']}: ", style), (finding["what"], style if is_note else "")]
    output.words(head, INDENT, 2 * INDENT)
    if finding["remedy"]:
        typed = [("try: ", ""), (connect_options.add_to(finding["remedy"]), "bold")]
        output.words(typed, 2 * INDENT, is_whole=True)
    elif finding["choices"]:  # The first choice has no command.
        output.words([("try: ", ""), (finding["choices"][0]["effect"], "")], 2 * INDENT, 3 * INDENT)


def state_of(link: Row) -> str:
    """Returns the state of a link on one line."""
    figures = link["progress"]
    if figures is None:
        if not link["inbound"]:
            return "no outbound link, and no open inbound link"
        ends = (_arrived(row) for row in link["inbound"])
        return f"inbound only: {', '.join(ends)}"
    words = [str(link["state"])]
    if link["state"] == "up" and (figures["connections"] or 1) > 1:
        words[0] += f" over {figures['connections_up']} of {figures['connections']} paths"
    waiting = figures["waiting"] or 0
    held = f"{messages(waiting)} ({size(figures['waiting_bytes'] or 0)}) pending"
    words.append(held if waiting else "no messages pending")
    if figures["messages_per_s"]:
        rate = f"{figures['messages_per_s']:,.0f} messages/s, {size(figures['bytes_per_s'] or 0)}/s"
        words.append(rate if figures["bytes_per_s"] else rate.partition(",")[0])
    if figures["drained_ms"] is not None:
        words.append(f"drained in {duration(figures['drained_ms'])}")
    return ", ".join(words)


def progress_of(link: Row) -> str:
    """Returns the progress of a link in words."""
    figures = link["progress"]
    words = [_confirmed(figures["commit_id"])]
    if figures["held"]:
        words.append(f"{messages(figures['held'])} above a gap")
    if figures["in_flight"]:
        oldest = figures["oldest_ms"]
        since = "" if oldest is None else f", the oldest sent {duration(oldest)} ago"
        words.append(f"{messages(figures['in_flight'])} in flight{since}")
    if figures["put_per_s"]:
        words.append(f"{figures['put_per_s']:,.0f} messages/s put")
    if figures["resent"]:
        words.append(f"{messages(figures['resent'])} sent again")
    return "; ".join(words)


def explain(found: Row) -> None:
    """Prints the diagnosis *found* of one link in sentences."""
    for link in found["links"]:
        name, verdict = link["link"], link["verdict"]
        head = [(f"{name}  ", "bold"), (f"{verdict}  ", STYLES[verdict]), (state_of(link), "")]
        output.words(head, others=INDENT)
        if not link["findings"]:
            output.words([("One measurement found no problem.", "")])
        for finding in link["findings"]:
            print()
            _explain(finding)
        for row in link["inbound"]:
            print()
            output.words([(_inbound(row), "")])


def _explain(finding: Row) -> None:
    style = STYLES[finding["severity"]]
    output.words([(f"{finding['code']}: ", style), (finding["what"], "")], 0, INDENT)
    output.words([("why: ", "bold"), (finding["why"], "")], 0, INDENT)
    if finding["choices"]:
        output.words([("remedies:", "bold")])
    for choice in finding["choices"]:
        if choice["command"]:
            typed = connect_options.add_to(choice["command"])
            output.words([(typed, "bold")], INDENT, is_whole=True)
        output.words([(choice["effect"], "")], 2 * INDENT, 2 * INDENT)


def _inbound(row: Row) -> str:
    """Returns the progress of an inbound link in words."""
    ahead, line = int(row.get("ahead") or 0), int(row.get("in_line") or 0)
    words = [f"from {row.get('peer')}: {_arrived(row)}"]
    if ahead:
        words.append(f"{messages(ahead)} above a gap")
    if line:
        words.append(f"{messages(line)} buffered after it")
    if row.get("duplicates"):
        words.append(f"{messages(int(row['duplicates']))} arrived again and were discarded")
    return "; ".join(words)


def _confirmed(commit_id: Any) -> str:
    return f"confirmed up to id {commit_id}" if commit_id else "no message confirmed yet"


def _arrived(row: Row) -> str:
    """Returns the highest id of a stream that arrived, including messages lost in a restore."""
    commit_id = row.get("commit_id")
    lost = ", some of them lost since" if row.get("lost") else ""
    return f"all up to id {commit_id} have arrived{lost}" if commit_id else "no message has arrived"
