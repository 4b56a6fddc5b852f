"""Explains from the row of a queue why a get received no message."""

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qmgr_config.units import ms_text
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import humanize
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.group import row as group_row
from qmgr_tools.message import selector_hint

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

# Words for messages that a get cannot receive, by key of the row.
_HELD = {"delayed": "delayed", "leased": "leased", "held": "in open units of work"}


def failure(client: "Client", queue: str, wait_ms: int, chosen: Mapping[str, Any]) -> Failure:
    """Returns the failure of a get that waited for *wait_ms* with the selection *chosen*."""
    group, why = None, None
    try:
        row: Mapping[str, Any] = client.admin.queue_show(queue)
        if row.get("alias_of"):
            row = client.admin.queue_show(row["alias_of"])
        if "group_id" in chosen:
            group = _group(client, queue, chosen["group_id"])
    except RequestError:  # The queue was deleted in the meantime.
        row = {}
    where = str(chosen.get("where", ""))
    hint = selector_hint.on_queue(client, queue, where) if where else ""
    if group is not None and _is_open(row):
        why = _why_of_group(group, queue)
    return Failure(
        Exit.EMPTY,
        f"got no message from {queue}",
        *(why or _why(row, queue, wait_ms, hint, selects=bool(chosen))),
    )


def _group(client: "Client", queue: str, group: bytes) -> dict[str, Any] | None:
    """Returns the row of a group, or None if the group does not exist."""
    try:
        return group_row.of(found := client.admin.show_group(queue, group)) | {
            "waiting_for": found["waiting_for"]
        }
    except RequestError as error:
        if error.code != ErrorCode.GROUP_UNKNOWN:
            raise
        return None


def _is_open(row: Mapping[str, Any]) -> bool:
    """Returns whether a queue delivers messages."""
    return not row.get("get_inhibit") and row.get("breaker", "closed") == "closed"


def _why_of_group(group: Mapping[str, Any], queue: str) -> tuple[str, str] | None:
    """Returns the reason why a group delivered no message and the remedy, or None if unknown."""
    name = f"{queue} {shlex.quote(group['group'])}"
    if group["state"] == "paused":
        return f"group {group['group']} is paused", f"resume it: qmctl group resume {name}"
    if group["state"] == "parked":
        failed = f"message {group['parked_number']} failed ({group['parked_code']})"
        return (
            f"group {group['group']} is parked: {failed}",
            f"fix the cause, then: qmctl group resume {name}; or skip the message: "
            f"qmctl group skip {name}",
        )
    see = f"see: qmctl group show {name}"
    if group["holder"]:
        return f"group {group['group']} is assigned to connection {group['holder']}", see
    if not group["next_is_here"]:
        return f"group {group['group']} waits for {group['waiting_for']}", see
    return None


def _why(
    row: Mapping[str, Any], queue: str, wait_ms: int, hint: str, *, selects: bool
) -> tuple[str, str]:
    """Returns the reason why no message arrived, and the remedy.

    *hint* explains an empty selection.
    """
    within = f"within {humanize.duration(wait_ms)}" if wait_ms else "right now"
    see = f"see: qmctl queue show {queue}"
    breaker = row.get("breaker", "closed")
    if row.get("get_inhibit"):
        return ("gets are inhibited", f"allow them: qmctl queue alter {queue} --no-get-inhibit")
    if breaker == "open":
        pause = ms_text(row["breaker_pause_ms"]) if "breaker_pause_ms" in row else "a while"
        why = f"its circuit breaker is open: delivery pauses for {pause} after too many failures"
        return why, f"fix the cause; the queue then tries one message; {see}"
    if breaker == "probing":
        why = "its circuit breaker is probing: it tries one message after too many failures"
        return why, f"fix the cause; the breaker closes once a message is consumed; {see}"
    if row.get("ready") and not selects:
        ready = humanize.messages(row["ready"])
        why = f"{ready} cannot be delivered: their groups wait or are assigned to other consumers"
        return why, f"see: qmctl group ls {queue}"
    if row.get("ready"):
        why = f"the selection matches none of {humanize.counted(row['ready'], 'ready message')}"
        return why, f"{hint}; see: qmctl browse {queue}" if hint else f"see: qmctl browse {queue}"
    held = [f"{row[key]:,} {words}" for key, words in _HELD.items() if row.get(key)]
    why = f"no message was ready {within}" + (f": {', '.join(held)}" if held else "")
    remedy = f"wait longer with --wait; {see}"
    if row.get("delayed"):
        remedy = f"wait longer with --wait; see: qmctl browse {queue} --delayed"
    return why, remedy
