"""qmctl link doctor, explain: finds and explains problems of links, and suggests remedies."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, watch
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit
from qmgr_tools.cli.humanize import US_PER_S
from qmgr_tools.link.doctor import text as link_doctor_text
from qmgr_tools.link.doctor.diagnosis import diagnosis
from qmgr_tools.link.show import Peer

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

INTERVAL_S = 1.0  # time between two measurements
EXITS = {"ok": Exit.OK, "warning": Exit.WARNING, "critical": Exit.CRITICAL}
Row = dict[str, Any]
AnyPeer = Annotated[
    str | None,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.peers,
        help="The queue manager at the other end. By default all links are examined.",
    ),
]


@command(watched=True)
def doctor(call: Call, link: AnyPeer = None) -> None:
    """Find problems of links, and suggest remedies.

    If a link is up, doctor measures it twice, with a pause of one second. The report has the rate,
    the time until the backlog is drained, and everything that makes no progress. Past problems are
    only notes. "qmctl link explain" adds the causes, and the effect of each remedy on messages.

    The exit code is 0 if there are only notes, 8 if the worst finding is a warning, and 9 if it is
    critical. Critical means that messages wait without progress, or that an operator must act. With
    --watch the exit code is 130.

    \b
    JSON: an object with
      verdict       ok, warning or critical: the worst of all
      looked_ms     time between the two measurements; 0: only one measurement
      inbound_count number of inbound links; at most 1,000 are examined
      links         an array of objects:
        link, state     state is null if there is only an inbound link
        verdict         the verdict on this link
        findings        an array: code, severity (note, warning, critical),
                        what, why, remedy (a command, or ""), choices (an array
                        of command, or "", and effect; the first is the remedy)
        progress        null if there is only an inbound link; as in
                        "qmctl link show":
                        waiting, waiting_bytes, in_flight, oldest_ms,
                        commit_id, held, next_id, transferred, resent,
                        connections, connections_up, down_ms, redial_ms,
                        blocked_ms, retry_ms; also messages_per_s, put_per_s,
                        bytes_per_s (estimated from the pending messages),
                        drained_ms, or null after only one measurement
        paths           as in "qmctl link show", and messages_per_s
        inbound         the inbound link, as in "qmctl link ls"

    Examples:
      qmctl link doctor
      qmctl link doctor NYC --watch
      qmctl link doctor -o json
    """
    of = f" {link}" if link else "s"
    ask = _twice(link)
    last: list[Row] = []

    def asked(client: "Client") -> Row:
        last[:] = [ask(client)]
        return last[0]

    watch.follow(call, f"examine link{of}", asked, partial(link_doctor_text.show, named=link))
    raise typer.Exit(EXITS[last[0]["verdict"]])


@command()
def explain(call: Call, link: Peer) -> None:
    """Explain the state of a link: its problems, causes, and the effect of each remedy.

    The command measures the link once, so the output has no rates. The exit code is always 0.

    JSON: as in "qmctl link doctor", with looked_ms 0.

    Examples:
      qmctl link explain NYC
    """

    def ask(client: "Client") -> Row:
        return diagnosis(_rows(client, link), None, 0, _now_us(), link)

    watch.follow(call, f"explain link {link}", ask, link_doctor_text.explain)


def _twice(link: str | None) -> "Callable[[Client], Row]":
    """Returns a function that measures twice. Later calls reuse the previous measurement."""
    before: Row | None = None
    at_s = 0.0

    def ask(client: "Client") -> Row:
        nonlocal before, at_s
        if before is None:
            before, at_s = _rows(client, link), time.monotonic()
            if not _may_progress(before):
                return diagnosis(before, None, 0, _now_us(), link)
            time.sleep(INTERVAL_S)
        now, now_s = _rows(client, link), time.monotonic()
        found = diagnosis(now, before, round((now_s - at_s) * 1000), _now_us(), link)
        before, at_s = now, now_s
        return found

    return ask


def _rows(client: "Client", link: str | None) -> Row:
    """Returns the outbound and inbound links, or only the links of *link* if given.

    Raises:
        RequestError: LINK_UNKNOWN if no link has that name.
    """
    found: Row = {**client.admin.link_list()}
    if link is None:
        return found
    links = [row for row in found["links"] if row.get("link") == link]
    inbound = [row for row in found["inbound"] if row.get("peer") == link]
    refused = [row for row in found.get("refused", ()) if row.get("peer") == link]
    if not (links or inbound or refused):
        links = [client.admin.link_show(link)]
    return {"links": links, "inbound": inbound, "inbound_count": len(inbound), "refused": refused}


def _may_progress(found: Row) -> bool:
    """Returns whether a second measurement may show progress."""
    return bool(found["inbound"]) or any(row.get("state") == "up" for row in found["links"])


def _now_us() -> int:
    return round(time.time() * US_PER_S)
