"""Why a get got nothing, as far as the row of its queue tells."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qmgr_config.units import ms_text
from qmgr_protocol.errors import RequestError
from qmgr_tools import humane
from qmgr_tools.failure import Exit, Failure

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

# What is on a queue and not to be had, by its key in the row.
_HELD = {"delayed": "delayed", "leased": "leased", "held": "in open units of work"}


def failure(client: "Client", queue: str, wait_ms: int, *, selects: bool) -> Failure:
    """Return the failure of a get that waited for *wait_ms* and may have been a selective one."""
    try:
        row = client.queue_show(queue)
        if row.get("alias_of"):
            row = client.queue_show(row["alias_of"])
    except RequestError:  # It is deleted meanwhile; that nothing came is true all the same.
        row = {}
    return Failure(Exit.EMPTY, f"got nothing from {queue}", *_why(row, queue, wait_ms, selects))


def _why(row: Mapping[str, Any], queue: str, wait_ms: int, selects: bool) -> tuple[str, str]:
    """Return why nothing came, and what to do."""
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
    if selects and row.get("ready"):
        why = f"of {humane.messages(row['ready'])} that may be had none is selected"
        return why, f"see: qmctl browse {queue}"
    held = [f"{row[key]:,} {words}" for key, words in _HELD.items() if row.get(key)]
    why = f"no message was ready {within}" + (f": {', '.join(held)}" if held else "")
    remedy = f"wait longer with --wait; {see}"
    if row.get("delayed"):
        remedy = f"wait longer with --wait; see: qmctl browse {queue} --delayed"
    return why, remedy
