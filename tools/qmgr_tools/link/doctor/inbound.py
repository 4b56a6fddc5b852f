"""Findings about inbound links."""

from qmgr_protocol.errors import ErrorCode
from qmgr_tools.cli import remedy
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import age, counted, duration, messages
from qmgr_tools.link.doctor import blocked as link_blocked
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity, text_of
from qmgr_tools.link.doctor.measurement import Row
from qmgr_tools.link.doctor.running import OFTEN, OFTEN_MIN


def found(row: Row, before: Row | None, passed_ms: int) -> list[Finding]:
    """Returns the findings of an inbound stream from its current *row* and the row *before*."""
    checks = (
        link_blocked.inbound(row),
        _gap(row, before, passed_ms),
        _duplicates(row),
        _dead_letters(row),
    )
    return [one for one in checks if one is not None]


def refused(row: Row, now_us: int) -> Finding:
    """Returns the finding of a queue manager that was not allowed to open a link."""
    peer, code, times = row["peer"], row.get("code"), counted(int(row.get("count") or 0), "time")
    last = age(int(row.get("last_us") or 0), now_us)
    what = f"a queue manager named {peer} was refused here {times}, the last time {last}"
    if code == "NOT_AUTHORIZED":
        _, text = text_of(row.get("error"))
        grant = remedy.command(ErrorCode.NOT_AUTHORIZED, text).partition(": ")[2]
        effect = f"only if you know this {peer}: accepts its messages when it connects again"
        choices = (Choice(grant, effect),) if grant else ()
        why = f"No message arrives from {peer} over this link until its user has the right."
        return Finding("peer-refused", Severity.WARNING, f"{what}: {one_line(text)}", why, choices)
    store = f" --store-id {row['store_id']}" if row.get("store_id") else ""
    if code == "PEER_NOT_ALLOWED":
        why = f"No operator has allowed {peer} to open links. No information was sent to it."
        effect = f"only if you know this {peer}: accepts its messages from then on"
    elif code == "PEER_STORE_CHANGED":
        why = f"{peer} is known with another store. No information was sent to it."
        effect = f"only if the store of {peer} was created again: accepts that store"
    else:
        why = "It tried to fetch messages, but this queue manager has no link to it."
        return Finding("peer-refused", Severity.NOTE, f"{what}: {code}", why)
    allow = f"qmctl link allow {peer}{store}"
    return Finding("peer-refused", Severity.WARNING, what, why, (Choice(allow, effect),))


def _gap(row: Row, before: Row | None, passed_ms: int) -> Finding | None:
    ahead, line = int(row.get("ahead") or 0), int(row.get("in_line") or 0)
    if before is None or row.get("blocked_id") is not None or not (ahead or line):
        return None
    had = before.get("ahead") or before.get("in_line")
    if not had or before.get("commit_id") != row.get("commit_id"):
        return None
    peer, gap = row["peer"], int(row.get("commit_id") or 0) + 1
    held = f"{messages(ahead)} stored after it" if ahead else ""
    lined = f"{messages(line)} buffered after it because the link is --ordered" if line else ""
    return Finding(
        "inbound-gap",
        Severity.WARNING,
        f"id {gap} from {peer} did not arrive within {duration(passed_ms)}: "
        + "; ".join(filter(None, (held, lined))),
        "The message is late on a slow path, or a path was lost and the message is sent again. No "
        "message is lost.",
        (
            Choice(
                f"qmctl link doctor {peer} --watch",
                "shows when the message arrives; changes nothing",
            ),
        ),
    )


def _duplicates(row: Row) -> Finding | None:
    copies, went = int(row.get("duplicates") or 0), int(row.get("commit_id") or 0)
    if copies < OFTEN_MIN or copies <= OFTEN * went:
        return None
    return Finding(
        "inbound-duplicates",
        Severity.NOTE,
        f"{row['peer']} has sent {messages(copies)} more than once since it connected; the copies "
        "were discarded",
        "Its connections break, or its paths are slow. No message is duplicated.",
    )


def _dead_letters(row: Row) -> Finding | None:
    count, error = int(row.get("dead_letters") or 0), row.get("dead_error")
    if not count:
        return None
    code, text = text_of(error)
    choices: tuple[Choice, ...] = (
        Choice("qmctl dlq ls", "shows the dead letters and their reasons; changes nothing"),
    )
    if code == "SENDER_NOT_AUTHORIZED":
        grant = "qmctl grant create put queue QUEUE --user USER"
        retry = "qmctl dlq retry --where \"dead_queue = 'QUEUE'\" --to QUEUE"
        choices += (
            Choice(grant, f"later messages are stored; USER is the user of {row['peer']}"),
            Choice(retry, "moves the dead letters to the queue"),
        )
    return Finding(
        "inbound-dead-letters",
        Severity.NOTE,
        f"{messages(count)} from {row['peer']} became dead letters here since the daemon started; "
        f"the last reason: {code}: {one_line(text)}",
        "This queue manager could not put them on their queues. The link continues.",
        choices,
    )
