"""A message that a link cannot deliver: at the end that sends, and at the one that receives."""

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

LONG_MS = 1_000  # Shorter it is not worth a word.


def found(row: Row, now_us: int) -> Finding:
    """Return the finding of a link that its peer has blocked.

    Args:
        now_us: the time, in microseconds since 1970: a UID says when its message was put.
    """
    link, queue, uid = row["link"], row.get("blocked_queue"), row.get("blocked_uid")
    code, text = text_of(row.get("error"))
    which = f"; the message is {uid}{_since(uid, now_us)}" if uid else ""
    bound = f" for {queue}" if queue else ""
    behind = int(row.get("blocked_behind") or 0)
    blocked_ms = int(row.get("blocked_ms") or 0)
    long = f"; blocked for {duration(blocked_ms)}" if blocked_ms >= LONG_MS else ""
    again = f"; tries again in {duration(row['retry_ms'])}" if row.get("retry_ms") else ""
    what = (
        f"{link} cannot store a message{bound}: {one_line(_reason(code, text))}{which}; "
        f"{messages(behind)} behind it{long}{again}"
    )
    choices = _mended(f"-c {address_of(row)} ", code, queue, f"at {link}: ")
    start = Choice(
        f"qmctl link start {link}",
        f"once it is mended: tries at once, not only {_later(row)}; nothing is lost or doubled",
    )
    return Finding(
        "blocked", _severity(code), what, _why(link, code, row.get("ordered")), (*choices, start)
    )


def _why(link: str, code: str, ordered: object) -> str:
    order = (
        "It is --ordered: nothing behind it is stored."
        if ordered
        else "What was under way beside it is stored all the same; the rest waits."
    )
    known = ErrorCode.__members__.get(code)
    means = f"At {link}: {known.means} " if known else ""  # Its "here" is there.
    return (
        f"{means}Nothing is dropped: it waits here until the peer takes it, or, where "
        f"link.deliver_retries is set there, gives it up to SYSTEM.DEAD.LETTERS. {order}"
    )


def inbound(row: Row) -> Finding | None:
    """Return the finding of what leads here, where something of it cannot be stored."""
    if row.get("blocked_id") is None:
        return None
    peer, queue, left = row["peer"], row.get("blocked_queue"), row.get("tries_left")
    code, text = text_of(row.get("error"))
    end = (
        "it is tried until it can be"
        if left is None
        else f"{'1 try' if left == 1 else f'{left} tries'} before it goes to SYSTEM.DEAD.LETTERS"
    )
    what = (
        f"message {row['blocked_id']} from {peer} for {queue} cannot be stored here: "
        f"{one_line(_reason(code, text))}; {end}"
    )
    choices = _mended("", code, queue, "")
    why = f"The link of {peer} is blocked by it, and keeps what lies behind it."
    return Finding("inbound-blocked", _severity(code), what, why, choices)


def _mended(where: str, code: str, queue: object, at: str) -> tuple[Choice, ...]:
    """Return what mends it, at the end that receives."""
    goes_on = f"{at}it is stored at the next try, and the link goes on"
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
            mend = "have its messages consumed: it takes as many as there is room for"
            choices += (Choice(f"qmctl {where}queue show {queue}", f"{at}{mend}"),)
        return choices
    if code == "STORE_FULL":
        room = "have messages consumed, or free disk: puts there go on by themselves then"
        return (Choice(f"qmctl {where}status", f"{at}{room}"),)
    if code == "MESSAGE_TOO_LARGE":
        text = "raise limits.message_max_bytes in its configuration, or of the queue: " + goes_on
        return (Choice(f"qmctl {where}queue show {queue}", f"{at}{text}"),)
    if code in ErrorCode.__members__:
        return (Choice(f"qmctl explain {code}", "changes nothing: tells what the error means"),)
    return ()


def _onward(where: str, manager: str, at: str, goes_on: str) -> tuple[Choice, ...]:
    """Return what has a message go on to *manager*, or ends one that is bound for nobody.

    It is numbered at the end that sends, so it cannot be taken out there.
    """
    create, passive = f"qmctl {where}link create {manager}", "--passive --transit"
    return (
        Choice(f"{create} HOST:PORT --transit", f"{goes_on}; from there it goes to {manager}"),
        Choice(
            f"{create} {passive}", f"{goes_on}; it waits there until {manager} dials and fetches it"
        ),
        Choice(
            f"qmctl {where}link delete {manager} --purge",
            f"{at}if there is no {manager}: after the command before this one, once it waits "
            f"there; loses it, and all that waits there for {manager}",
        ),
    )


def _severity(code: str) -> Severity:
    """Return how bad it is: what consumers mend by themselves is a warning."""
    known = ErrorCode.__members__.get(code)
    mends = known is not None and known.error_class is ErrorClass.RETRY_LATER
    return Severity.WARNING if mends and code != "STORE_FULL" else Severity.CRITICAL


def _reason(code: str, text: str) -> str:
    """Return why, without what to do, which is told apart."""
    fact = text.partition("; ")[0]
    return f"{code}: {fact}" if code else fact


def _later(row: Row) -> str:
    return f"in {duration(row['retry_ms'])}" if row.get("retry_ms") else "later"


def _since(uid: object, now_us: int) -> str:
    digits = str(uid).rpartition(".")[2]
    return f", put {age(int(digits), now_us)}" if digits.isdecimal() else ""
