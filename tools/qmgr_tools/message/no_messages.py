"""Why a get got nothing, as far as the row of its queue tells."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qmgr_config.units import ms_text
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.group import row as group_row
from qmgr_tools.message import selector_hint

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

# What is on a queue and not to be had, by its key in the row.
_HELD = {"delayed": "delayed", "leased": "leased", "held": "in open units of work"}


def failure(client: "Client", queue: str, wait_ms: int, chosen: Mapping[str, Any]) -> Failure:
    """Return the failure of a get that waited for *wait_ms* and had *chosen* what it wants."""
    group, why = None, None
    try:
        row: Mapping[str, Any] = client.admin.queue_show(queue)
        if row.get("alias_of"):
            row = client.admin.queue_show(row["alias_of"])
        if "group_id" in chosen:
            group = _group(client, queue, chosen["group_id"])
    except RequestError:  # It is deleted meanwhile; that nothing came is true all the same.
        row = {}
    where = str(chosen.get("where", ""))
    hint = selector_hint.on_queue(client, queue, where) if where else ""
    if group is not None and _is_open(row):
        why = _why_of_group(group, queue)
    return Failure(
        Exit.EMPTY,
        f"got nothing from {queue}",
        *(why or _why(row, queue, wait_ms, hint, selects=bool(chosen))),
    )


def _group(client: "Client", queue: str, group: bytes) -> dict[str, Any] | None:
    """Return how a group stands, or None where there is no such one."""
    try:
        return group_row.of(found := client.admin.show_group(queue, group)) | {
            "waiting_for": found["waiting_for"]
        }
    except RequestError as error:
        if error.code != ErrorCode.GROUP_UNKNOWN:
            raise
        return None


def _is_open(row: Mapping[str, Any]) -> bool:
    """Return whether a queue hands out at all."""
    return not row.get("get_inhibit") and row.get("breaker", "closed") == "closed"


def _why_of_group(group: Mapping[str, Any], queue: str) -> tuple[str, str] | None:
    """Return why nothing of a group came, and what to do, where the group itself tells."""
    name = f"{queue} {shlex.quote(group['group'])}"
    if group["state"] == "paused":
        return f"group {group['group']} is paused", f"have it go on: qmctl group resume {name}"
    if group["state"] == "parked":
        failed = f"its number {group['parked_number']} failed ({group['parked_code']})"
        return (
            f"group {group['group']} is parked: {failed}",
            f"mend what fails, then: qmctl group resume {name}; or go on behind it: "
            f"qmctl group skip {name}",
        )
    see = f"see: qmctl group show {name}"
    if group["holder"]:
        return f"group {group['group']} is in the hands of connection {group['holder']}", see
    if not group["next_is_here"]:
        return f"group {group['group']} waits for {group['waiting_for']}", see
    return None


def _why(
    row: Mapping[str, Any], queue: str, wait_ms: int, hint: str, *, selects: bool
) -> tuple[str, str]:
    """Return why nothing came, and what to do; *hint* says why a selector selects nothing."""
    within = f"within {humane.duration(wait_ms)}" if wait_ms else "right now"
    see = f"see: qmctl queue show {queue}"
    breaker = row.get("breaker", "closed")
    if row.get("get_inhibit"):
        return (
            "its gets are inhibited",
            f"have it go on: qmctl queue alter {queue} --no-get-inhibit",
        )
    if breaker == "open":
        pause = ms_text(row["breaker_pause_ms"]) if "breaker_pause_ms" in row else "a while"
        why = f"its breaker is open: too much failed, so nothing is handed out for {pause}"
        return why, f"mend what fails; then a message is tried; {see}"
    if breaker == "probing":
        why = "its breaker is probing: too much failed, and the message that is tried is not done"
        return why, f"mend what fails; once a message is consumed it closes; {see}"
    if row.get("ready") and not selects:
        why = f"none of {humane.messages(row['ready'])} may be had: their groups wait, or are held"
        return why, f"see: qmctl group ls {queue}"
    if row.get("ready"):
        why = f"of {humane.messages(row['ready'])} that may be had none is selected"
        return why, f"{hint}; see: qmctl browse {queue}" if hint else f"see: qmctl browse {queue}"
    held = [f"{row[key]:,} {words}" for key, words in _HELD.items() if row.get(key)]
    why = f"no message was ready {within}" + (f": {', '.join(held)}" if held else "")
    remedy = f"wait longer with --wait; {see}"
    if row.get("delayed"):
        remedy = f"wait longer with --wait; see: qmctl browse {queue} --delayed"
    return why, remedy
