"""Findings about messages that were lost because a store was restored."""

from qmgr_tools.cli.humanize import age, messages
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity
from qmgr_tools.link.doctor.measurement import Row
from qmgr_tools.link.doctor.refused import UNKNOWN_ADDRESS, address_of

FRESH_US = 24 * 3_600 * 1_000_000  # time during which the finding is a warning, not a note
_WHY = (
    "The messages had been confirmed, so the sender deleted them. Messages that were consumed or "
    "forwarded before the restore are not lost, although they are counted."
)


def at_peer(row: Row, now_us: int) -> Finding | None:
    """Returns a finding if the peer of a link was restored, or None.

    Args:
        row: The row of an outbound link.
        now_us: The time in microseconds since 1970.
    """
    peer, address = row.get("link"), address_of(row)
    look = f"qmctl -c {address} link doctor"
    there = (
        Choice("", f"also check the other end: run qmctl link doctor at {peer}")
        if address == UNKNOWN_ADDRESS
        else Choice(look, "shows the finding of the other end; changes nothing")
    )
    what = f"the store of {peer} was restored to an older state"
    return _found(row, now_us, "peer-restored", what, (there,))


def here(row: Row, now_us: int) -> Finding | None:
    """Returns a finding if the store that receives an inbound stream was restored, or None.

    Args:
        row: The row of an inbound link.
        now_us: The time in microseconds since 1970.
    """
    what = f"this store was restored to a state older than messages from {row.get('peer')}"
    return _found(row, now_us, "restored", what, ())


def _found(
    row: Row, now_us: int, code: str, what: str, choices: tuple[Choice, ...]
) -> Finding | None:
    lost, at_us = int(row.get("lost") or 0), int(row.get("lost_us") or 0)
    if not lost:
        return None
    severity = Severity.WARNING if now_us - at_us < FRESH_US else Severity.NOTE
    again = Choice(
        "", "the producers can put the messages again: with the same UID each is stored once"
    )
    return Finding(
        code,
        severity,
        f"{what}: up to {messages(lost)} may be lost, detected {age(at_us, now_us)}",
        _WHY,
        (*choices, again),
    )
