"""What qmctl link doctor and explain print for people.

A link that is well has one line. One that is not has what is wrong, what to type, and how it gets
on, below that. Where no terminal is, a finding is a row of a table, and so is a link without one.
"""

import sys
from typing import Any

from qmgr_tools.cli import output, same_place
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
    """Print what *found* tells, all of it of a link that was *named*."""
    links = found["links"]
    if not sys.stdout.isatty():
        output.table(ROWS, [row for link in links for row in _rows(link)])
    elif not links:
        output.say("no link leads from here, and none to here")
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
        output.note(f"{left} more that lead here are not looked at")


def show_paths(paths: list[Row], indent: int = 0) -> None:
    """Print a table of the *paths* of a link, below a line that stays free."""
    if not paths:
        return
    print()
    # The error of a single one is told above.
    shown = paths if len(paths) > 1 else [paths[0] | {"error": ""}]
    used = [column for column in PATHS if any(column.cell(path) for path in shown)]
    output.table(used, shown, indent)


def _rows(link: Row) -> list[Row]:
    """Return the rows of a link where no terminal is."""
    own = {"link": link["link"], "verdict": link["verdict"], "state": link["state"]}
    own["waiting"] = (link["progress"] or {}).get("waiting")
    found = [f | {"remedy": same_place.commands(f["remedy"])} for f in link["findings"]]
    return [own | finding for finding in found] or [own]


def _print(link: Row, wide: int, *, is_long: bool, is_named: bool) -> None:
    verdict = link["verdict"]
    head = [
        (f"{link['link']:<{wide}}  ", "bold"),
        (f"{verdict:<8}  ", STYLES[verdict]),
        (standing(link), ""),
    ]
    output.words(head, others=wide + 12)
    if not is_long:
        return
    for finding in link["findings"]:
        _print_finding(finding)
    if any(len(finding["choices"]) > 1 for finding in link["findings"]):
        more = same_place.commands(f"why, and other ways: qmctl link explain {link['link']}")
        output.words([(more, "dim")], INDENT)
    is_at_rest = link["state"] in ("stopped", "refused")
    if link["paths"] and (is_named or not is_at_rest):
        output.words([(getting_on(link), "")], INDENT, INDENT)
    if is_named or (len(link["paths"]) > 1 and not is_at_rest):
        show_paths(link["paths"], INDENT)
    if is_named:
        for row in link["inbound"]:
            print()
            output.words([(_leading_here(row), "")], INDENT, INDENT)


def _print_finding(finding: Row) -> None:
    style = STYLES[finding["severity"]]
    is_note = finding["severity"] == "note"
    head = [(f"{finding['code']}: ", style), (finding["what"], style if is_note else "")]
    output.words(head, INDENT, 2 * INDENT)
    if finding["remedy"]:
        typed = [("try: ", ""), (same_place.commands(finding["remedy"]), "bold")]
        output.words(typed, 2 * INDENT, is_whole=True)
    elif finding["choices"]:  # The first is in words: nothing is typed here.
        output.words([("try: ", ""), (finding["choices"][0]["effect"], "")], 2 * INDENT, 3 * INDENT)


def standing(link: Row) -> str:
    """Return where a link stands, in a line."""
    figures = link["progress"]
    if figures is None:
        if not link["inbound"]:
            return "no link leads there, and none from there is open"
        ends = (_arrived(row) for row in link["inbound"])
        return f"leads here only: {', '.join(ends)}"
    words = [str(link["state"])]
    if link["state"] == "up" and (figures["connections"] or 1) > 1:
        words[0] += f" over {figures['connections_up']} of {figures['connections']} paths"
    waiting = figures["waiting"] or 0
    is_one = "s" if waiting == 1 else ""
    held = f"{messages(waiting)} ({size(figures['waiting_bytes'] or 0)}) wait{is_one}"
    words.append(held if waiting else "nothing waits")
    if figures["messages_per_s"]:
        rate = f"{figures['messages_per_s']:,.0f} messages/s, {size(figures['bytes_per_s'] or 0)}/s"
        words.append(rate if figures["bytes_per_s"] else rate.partition(",")[0])
    if figures["drained_ms"] is not None:
        words.append(f"drained in {duration(figures['drained_ms'])}")
    return ", ".join(words)


def getting_on(link: Row) -> str:
    """Return how far a link is, in words."""
    figures = link["progress"]
    words = [_confirmed(figures["commit_id"])]
    if figures["held"]:
        words.append(f"{messages(figures['held'])} above a gap")
    if figures["in_flight"]:
        oldest = figures["oldest_ms"]
        since = "" if oldest is None else f", the oldest sent {duration(oldest)} ago"
        words.append(f"{messages(figures['in_flight'])} in flight{since}")
    if figures["put_per_s"]:
        words.append(f"{figures['put_per_s']:,.0f} messages/s come")
    if figures["resent"]:
        words.append(f"{messages(figures['resent'])} sent again")
    return "; ".join(words)


def explain(found: Row) -> None:
    """Print in words what *found* tells of one link."""
    for link in found["links"]:
        name, verdict = link["link"], link["verdict"]
        head = [(f"{name}  ", "bold"), (f"{verdict}  ", STYLES[verdict]), (standing(link), "")]
        output.words(head, others=INDENT)
        if not link["findings"]:
            output.words([("Nothing is wrong that one look can tell.", "")])
        for finding in link["findings"]:
            print()
            _explain(finding)
        for row in link["inbound"]:
            print()
            output.words([(_leading_here(row), "")])


def _explain(finding: Row) -> None:
    style = STYLES[finding["severity"]]
    output.words([(f"{finding['code']}: ", style), (finding["what"], "")], 0, INDENT)
    output.words([("why: ", "bold"), (finding["why"], "")], 0, INDENT)
    if finding["choices"]:
        output.words([("what can be done:", "bold")])
    for choice in finding["choices"]:
        if choice["command"]:
            typed = same_place.commands(choice["command"])
            output.words([(typed, "bold")], INDENT, is_whole=True)
        output.words([(choice["effect"], "")], 2 * INDENT, 2 * INDENT)


def _leading_here(row: Row) -> str:
    """Return how what leads here gets on, in words."""
    ahead, line = int(row.get("ahead") or 0), int(row.get("in_line") or 0)
    words = [f"from {row.get('peer')}: {_arrived(row)}"]
    if ahead:
        words.append(f"{messages(ahead)} above a gap")
    if line:
        words.append(f"{messages(line)} in line behind it")
    if row.get("duplicates"):
        words.append(f"{messages(int(row['duplicates']))} came again and were discarded")
    return "; ".join(words)


def _confirmed(commit_id: Any) -> str:
    return f"confirmed up to id {commit_id}" if commit_id else "nothing is confirmed yet"


def _arrived(row: Row) -> str:
    """Return what of a stream has come; what was lost as the store was put back came once."""
    commit_id = row.get("commit_id")
    lost = ", some of it lost since" if row.get("lost") else ""
    return f"all up to id {commit_id} has come{lost}" if commit_id else "nothing has come yet"
