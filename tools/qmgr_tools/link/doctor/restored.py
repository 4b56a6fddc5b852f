"""What was lost of a link as the store at one of its ends was put back to an older state."""

from qmgr_tools.cli.humanize import age, messages
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity
from qmgr_tools.link.doctor.look import Row
from qmgr_tools.link.doctor.refused import UNKNOWN_ADDRESS, address_of

FRESH_US = 24 * 3_600 * 1_000_000  # So long it is worth a warning.
_WHY = (
    "They had been confirmed, and so were deleted where they came from. Those that had gone on, or "
    "had been consumed, before the backup was put back are not lost, though they are counted."
)


def at_peer(row: Row, now_us: int) -> Finding | None:
    """Return the finding of a link whose peer was put back, or None.

    Args:
        row: of a link that leads from here.
        now_us: the time, in microseconds since 1970.
    """
    peer, address = row.get("link"), address_of(row)
    look = f"qmctl -c {address} link doctor"
    there = (
        Choice("", f"look there, too, at {peer}: qmctl link doctor")
        if address == UNKNOWN_ADDRESS
        else Choice(look, "changes nothing: says the same at that end")
    )
    return _found(row, now_us, "peer-restored", f"{peer} was put back to an older state", (there,))


def here(row: Row, now_us: int) -> Finding | None:
    """Return the finding of a stream that leads here into a store that was put back, or None.

    Args:
        row: of a link that leads here.
        now_us: the time, in microseconds since 1970.
    """
    what = f"this store was put back to before what {row.get('peer')} had sent"
    return _found(row, now_us, "restored", what, ())


def _found(
    row: Row, now_us: int, code: str, what: str, choices: tuple[Choice, ...]
) -> Finding | None:
    lost, at_us = int(row.get("lost") or 0), int(row.get("lost_us") or 0)
    if not lost:
        return None
    severity = Severity.WARNING if now_us - at_us < FRESH_US else Severity.NOTE
    again = Choice("", "who put them may put them again: a UID of their own is stored once only")
    return Finding(
        code,
        severity,
        f"{what}: up to {messages(lost)} may be lost, found out {age(at_us, now_us)}",
        _WHY,
        (*choices, again),
    )
