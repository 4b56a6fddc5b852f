"""qmctl link doctor, explain: what is wrong with which link, and what to do."""

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

APART_S = 1.0  # between two looks
EXITS = {"ok": Exit.OK, "warning": Exit.WARNING, "critical": Exit.CRITICAL}
Row = dict[str, Any]
AnyPeer = Annotated[
    str | None,
    typer.Argument(
        metavar="MANAGER",
        show_default=False,
        autocompletion=completion.peers,
        help="The queue manager there; all without it.",
    ),
]


@command(watched=True)
def doctor(call: Call, link: AnyPeer = None) -> None:
    """Tell what is wrong with which link, since when, and what to type.

    Looks twice, a second apart, where a link is up: so it tells what goes over, when the backlog is
    drained, and what does not move. Of what was and is over there are notes only. "qmctl link
    explain" tells why, and what each way on does to messages.

    Exit code: 0 where no link has more than a note, 8 after a warning, 9 where one is critical: it
    does not get on, and messages wait or somebody has to act. With --watch that of Ctrl-C.

    \b
    JSON: an object with
      verdict       ok, warning or critical: the worst of all
      looked_ms     between the two looks; 0: there was one
      inbound_count how many links lead here; at most 1,000 are looked at
      links         an array of objects:
        link, state     state is null where it only leads here from there
        verdict         of this link
        findings        an array: code, severity (note, warning, critical),
                        what, why, remedy (a command, or ""), choices (an array
                        of command, or "", and effect; the first is the remedy)
        progress        null where it only leads here; as "qmctl link show":
                        waiting, waiting_bytes, in_flight, oldest_ms,
                        commit_id, held, next_id, transferred, resent,
                        connections, connections_up, down_ms, redial_ms,
                        blocked_ms, retry_ms; and, or null,
                        messages_per_s, put_per_s, bytes_per_s (by the size of
                        what waits), drained_ms
        paths           as "qmctl link show", and messages_per_s
        inbound         what leads here from there, as "qmctl link ls"

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

    watch.follow(call, f"look after link{of}", asked, partial(link_doctor_text.show, named=link))
    raise typer.Exit(EXITS[last[0]["verdict"]])


@command()
def explain(call: Call, link: Peer) -> None:
    """Explain how a link is: what happened, why, and what each way on does to messages.

    It is "qmctl link doctor MANAGER" in words, with one look and no figures; exit code 0 whatever
    it finds.

    JSON: as of "qmctl link doctor", with looked_ms 0.

    Examples:
      qmctl link explain NYC
    """

    def ask(client: "Client") -> Row:
        return diagnosis(_look(client, link), None, 0, _now_us(), link)

    watch.follow(call, f"explain link {link}", ask, link_doctor_text.explain)


def _twice(link: str | None) -> "Callable[[Client], Row]":
    """Return what looks twice; asked again, it takes the look of the last time for the first."""
    before: Row | None = None
    at_s = 0.0

    def ask(client: "Client") -> Row:
        nonlocal before, at_s
        if before is None:
            before, at_s = _look(client, link), time.monotonic()
            # Nobody waits for what cannot come.
            if not _moves(before):
                return diagnosis(before, None, 0, _now_us(), link)
            time.sleep(APART_S)
        now, now_s = _look(client, link), time.monotonic()
        found = diagnosis(now, before, round((now_s - at_s) * 1000), _now_us(), link)
        before, at_s = now, now_s
        return found

    return ask


def _look(client: "Client", link: str | None) -> Row:
    """Return the links that lead from here and to here, those of *link* if given.

    Raises:
        RequestError: LINK_UNKNOWN, there is none of that name.
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


def _moves(found: Row) -> bool:
    """Return whether another look may tell more."""
    return bool(found["inbound"]) or any(row.get("state") == "up" for row in found["links"])


def _now_us() -> int:
    return round(time.time() * US_PER_S)
