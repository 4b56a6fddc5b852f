"""The orderly end of an active member: names the next one at a switch-over, and steps down."""

from collections.abc import Sequence
from typing import Any

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.engine.fence import resign, want
from qmgrd.engine.members import MemberRow, members
from qmgrd.engine.schema import Place
from qmgrd.engine.server import ServerAway, ServerUnusable, session
from qmgrd.member.keeper import SEEN_S


def name_next(url: str, place: Place, own: str, wanted: str) -> dict[str, Any]:
    """Writes the next active member to the journal. Returns its name and its addresses.

    Args:
        url: The server of the journal.
        place: The place of the journal.
        own: The active member.
        wanted: The member that an operator wants, or "" for any standby.

    Raises:
        RequestError: NO_STANDBY, or JOURNAL_AWAY if the server does not answer.
    """
    try:
        with session(url, "switch-over") as connection:
            row = chosen(members(connection, place), own, wanted)
            want(connection, place, row.member)
    except (ServerAway, ServerUnusable) as error:
        raise RequestError(ErrorCode.JOURNAL_AWAY, str(error)) from error
    return {"member": row.member, "addresses": row.addresses.split(",") if row.addresses else []}


def step_down(url: str, place: Place, epoch: int, own: str) -> None:
    """Says in the journal that the active member *own* has ended, so that standbys need not wait.

    Raises:
        ServerAway, ServerUnusable: The server does not answer. A standby waits for a moment.
    """
    with session(url, "end") as connection:
        resign(connection, place, epoch, f"{own} stopped")


def chosen(rows: Sequence[MemberRow], own: str, wanted: str) -> MemberRow:
    """Returns the row of the standby *wanted*, or of the one with the most records.

    Raises:
        RequestError: NO_STANDBY if this standby does not exist, or was not seen for SEEN_S.
    """
    others = [row for row in rows if row.member != own]
    seen = [row for row in others if row.seen_s < SEEN_S]
    if wanted == own:
        raise _refusal(f"member {own} is active already")
    if wanted:
        row = next((row for row in others if row.member == wanted), None)
        if row is None:
            known = ", ".join(row.member for row in others) or "none"
            raise _refusal(f"member {wanted} is unknown; the other members: {known}")
        if row not in seen:
            raise _refusal(
                f"member {wanted} was not seen for {row.seen_s:.0f} s; check that it runs, and "
                "that it reaches the server of the journal"
            )
        return row
    if not seen:
        away = ", ".join(row.member for row in others)
        raise _refusal(
            f"no other member was seen for {SEEN_S:.0f} s"
            + (f" ({away}); start one" if away else "; start one with the same journal.url")
        )
    return max(seen, key=lambda row: row.record)


def _refusal(why: str) -> RequestError:
    return RequestError(ErrorCode.NO_STANDBY, why)
