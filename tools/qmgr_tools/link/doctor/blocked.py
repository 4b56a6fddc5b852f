"""Findings about a message that a link cannot deliver, at either end."""

from typing import Any

from qmgr_protocol.errors import ErrorClass, ErrorCode
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import age, duration, messages
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity, text_of
from qmgr_tools.link.doctor.refused import address_of

Row = dict[str, Any]
ALTER = {
    "QUEUE_FULL": "--depth-max N",
    "QUEUE_BYTES_FULL": "--bytes-max N",
    "PUT_INHIBITED": "--no-put-inhibit",
    "TRANSFER_REFUSED": "--transfer-in",
}

LONG_MS = 1_000  # minimum time that is shown


def found(row: Row, now_us: int) -> Finding:
    """Returns the finding of a link that its peer has blocked.

    Args:
        now_us: The time in microseconds since 1970, to compute a message's age from its UID.
    """
    link, queue, uid = row["link"], row.get("blocked_queue"), row.get("blocked_uid")
    code, text = text_of(row.get("error"))
    which = f"; the message is {uid}{_since(uid, now_us)}" if uid else ""
    bound = f" for {queue}" if queue else ""
    behind = int(row.get("blocked_behind") or 0)
    blocked_ms = int(row.get("blocked_ms") or 0)
    long = f"; blocked for {duration(blocked_ms)}" if blocked_ms >= LONG_MS else ""
    again = f"; retries in {duration(row['retry_ms'])}" if row.get("retry_ms") else ""
    what = (
        f"{link} cannot store a message{bound}: {one_line(_reason(code, text))}{which}; "
        f"{messages(behind)} after it{long}{again}"
    )
    choices = _remedies(f"-c {address_of(row)} ", code, queue, f"at {link}: ")
    start = Choice(
        f"qmctl link start {link}",
        f"after the fix: retries now instead of {_later(row)}; nothing is lost or duplicated",
    )
    return Finding(
        "blocked", _severity(code), what, _why(link, code, row.get("ordered")), (*choices, start)
    )


def _why(link: str, code: str, ordered: object) -> str:
    order = (
        "The link is --ordered, so no later message is stored."
        if ordered
        else "Messages that were already in flight are stored; the others wait."
    )
    known = ErrorCode.__members__.get(code)
    means = f"At {link}: {known.means} " if known else ""
    return (
        f"{means}No message is lost: the message waits here until the peer stores it. If "
        f"link.deliver_retries is set at the peer, it may move to SYSTEM.DEAD.LETTERS there. "
        f"{order}"
    )


def inbound(row: Row) -> Finding | None:
    """Returns a finding if a message of an inbound stream cannot be stored, or None."""
    if row.get("blocked_id") is None:
        return None
    peer, queue, left = row["peer"], row.get("blocked_queue"), row.get("tries_left")
    code, text = text_of(row.get("error"))
    end = (
        "it is retried until it succeeds"
        if left is None
        else f"{'1 try' if left == 1 else f'{left} tries'} left before it moves to "
        "SYSTEM.DEAD.LETTERS"
    )
    what = (
        f"message {row['blocked_id']} from {peer} for {queue} cannot be stored here: "
        f"{one_line(_reason(code, text))}; {end}"
    )
    choices = _remedies("", code, queue, "")
    why = f"The message blocks the link of {peer}, which keeps all later messages."
    return Finding("inbound-blocked", _severity(code), what, why, choices)


def _remedies(where: str, code: str, queue: object, at: str) -> tuple[Choice, ...]:
    """Returns the remedies at the receiving end."""
    goes_on = f"{at}the message is stored at the next try, and the link continues"
    explain = f"qmctl explain {code}", "explains the error; changes nothing"
    if not queue and code != "STORE_FULL":  # The message no longer exists.
        return (Choice(*explain),) if code in ErrorCode.__members__ else ()
    if code == "QUEUE_UNKNOWN":
        return (Choice(f"qmctl {where}queue create {queue}", goes_on),)
    manager = str(queue or "").partition("@")[2]
    if code == "LINK_UNKNOWN" and manager:
        return _onward(where, manager, at, goes_on)
    if code in ALTER:
        choices: tuple[Choice, ...] = (
            Choice(f"qmctl {where}queue alter {queue} {ALTER[code]}", goes_on),
        )
        if code.endswith("_FULL"):
            room = "consume messages from the queue to make room"
            choices += (Choice(f"qmctl {where}queue show {queue}", f"{at}{room}"),)
        return choices
    if code == "STORE_FULL":
        room = "consume messages, or free disk space: puts then continue automatically"
        return (Choice(f"qmctl {where}status", f"{at}{room}"),)
    if code == "MESSAGE_TOO_LARGE":
        text = "raise limits.message_max_bytes in its configuration, or message_max of the queue: "
        return (Choice(f"qmctl {where}queue show {queue}", f"{at}{text}{goes_on}"),)
    if code in ErrorCode.__members__:
        return (Choice(*explain),)
    return ()


def _onward(where: str, manager: str, at: str, goes_on: str) -> tuple[Choice, ...]:
    """Returns the remedies if the receiving end has no link to *manager*.

    The sender cannot delete the message, because the message already has an id in the stream.
    """
    create, passive = f"qmctl {where}link create {manager}", "--passive --transit"
    return (
        Choice(
            f"{create} HOST:PORT --transit", f"{goes_on}; the message is forwarded to {manager}"
        ),
        Choice(
            f"{create} {passive}",
            f"{goes_on}; the message waits there until {manager} connects and fetches it",
        ),
        Choice(
            f"qmctl {where}link delete {manager} --purge",
            f"{at}if {manager} does not exist: first create the link, then delete the link with "
            f"its messages; loses this message and all others that wait there for {manager}",
        ),
    )


def _severity(code: str) -> Severity:
    """Returns the severity. A problem that consumers can resolve is a warning."""
    known = ErrorCode.__members__.get(code)
    resolves = known is not None and known.error_class is ErrorClass.RETRY_LATER
    return Severity.WARNING if resolves and code != "STORE_FULL" else Severity.CRITICAL


def _reason(code: str, text: str) -> str:
    """Returns the reason without the remedy, because the choices contain the remedy."""
    fact = text.partition("; ")[0]
    return f"{code}: {fact}" if code else fact


def _later(row: Row) -> str:
    return f"in {duration(row['retry_ms'])}" if row.get("retry_ms") else "later"


def _since(uid: object, now_us: int) -> str:
    digits = str(uid).rpartition(".")[2]
    return f", put {age(int(digits), now_us)}" if digits.isdecimal() else ""
