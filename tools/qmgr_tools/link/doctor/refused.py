"""Findings about a refused link: the cause, and the effect of each remedy on messages.

The daemon reports a code and a sentence. The rest follows from the protocol (section 9).
"""

import re
from typing import Any

from qmgr_protocol.errors import ErrorCode
from qmgr_tools.cli import remedy
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import counted, duration, messages
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity, text_of

Row = dict[str, Any]
OTHER_STORE = re.compile(r"queue manager (\S+) has a different store")
HOLDS = re.compile(
    r"(?:holds up to|hold different messages under) id (\d+)"
    r"(?:, but the next id to assign here is (\d+))?"
)
BEHIND = re.compile(r"holds up to id (\d+), but had committed (\d+)")


def found(row: Row) -> Finding:
    """Returns the finding of a refused link with this *row*."""
    code, text = text_of(row.get("error"))
    explain = {
        "PEER_WRONG": _peer_wrong,
        "PEER_NOT_ALLOWED": _not_allowed,
        "PEER_STORE_CHANGED": _store_changed,
        "RESTORED": _restored,
        "PEER_RESTORED": _peer_restored,
        "STORE_DAMAGED": _damaged,
    }.get(code, _other)
    happened, why, choices = explain(row, code, one_line(text))
    waiting = _waiting(row)
    held = f"it holds {messages(waiting)}, stored safely" if waiting else "it holds no messages"
    name = "refused-" + (code or "unknown").lower().replace("_", "-")
    retry_ms = row.get("retry_ms")
    next_ = "it stays refused" if retry_ms is None else f"it retries in {duration(retry_ms)}"
    return Finding(name, Severity.CRITICAL, f"{happened}; {next_}; {held}", why, choices)


Explanation = tuple[str, str, tuple[Choice, ...]]  # what happened, the cause, and the remedies


UNKNOWN_ADDRESS = "HOST:PORT"
ALLOW = "qmctl link allow NAME"  # remedy if the peer did not name this queue manager


def address_of(row: Row) -> str:
    """Returns the last known address of the peer, or a configured address."""
    last = [str(path.get("address") or "") for path in row.get("paths") or []]
    known = [address for address in last if ":" in address and " " not in address]
    return str((known or row.get("addresses") or [UNKNOWN_ADDRESS])[0])


def _at_peer(row: Row, command: str) -> str:
    """Returns *command* for the queue manager at the other end of the link."""
    return command.replace("qmctl ", f"qmctl -c {address_of(row)} ", 1)


def _waiting(row: Row) -> int:
    return int(row.get("waiting") or 0)


def _all(row: Row) -> str:
    waiting = _waiting(row)
    return f"the pending messages ({waiting:,})" if waiting else "messages put from now on"


def _accept(row: Row, effect: str) -> Choice:
    return Choice(f"qmctl link start {row['link']} --accept", effect)


def _elsewhere(row: Row) -> Choice:
    effect = f"sends {_all(row)} to that address, exactly once; nothing is lost or duplicated"
    return Choice(f"qmctl link alter {row['link']} HOST:PORT", effect)


def _sends_again(row: Row) -> str:
    """Returns the effect that accepting the peer has on pending messages."""
    if not _waiting(row):
        return "no messages are pending, so no message arrives twice"
    return (
        f"sends {_all(row)} as a new stream: the peer may already have some. Of these, consumed "
        "messages arrive twice; messages still on their queue do not"
    )


def _peer_wrong(row: Row, code: str, text: str) -> Explanation:
    return (
        f"a queue manager other than {row['link']} answers: {text.partition(';')[0]}",
        "The address is wrong, or another queue manager was started there. No message was sent. "
        "Accepting the peer does not help.",
        (_elsewhere(row),),
    )


def _not_allowed(row: Row, code: str, text: str) -> Explanation:
    link = str(row["link"])
    remote = _at_peer(row, remedy.command(ErrorCode.PEER_NOT_ALLOWED, text) or ALLOW)
    return (
        f"{link} accepts no links from this queue manager",
        f"An operator of {link} must allow this queue manager before it may send. No message was "
        "sent.",
        (
            Choice(
                remote,
                f"at {link}: sends {_all(row)}, exactly once; with --store-id (see qmctl status "
                f"here), {link} accepts no other store",
            ),
            Choice(f"qmctl link start {link}", "then, at this queue manager: retries now"),
        ),
    )


def _store_changed(row: Row, code: str, text: str) -> Explanation:
    link = str(row["link"])
    which = OTHER_STORE.search(text)
    if which and which[1] != link:  # The peer refused this store.
        remote = _at_peer(row, remedy.command(ErrorCode.PEER_STORE_CHANGED, text))
        return (
            f"{link} does not accept {which[1]}: it knows {which[1]} with another store",
            f"This store was created again, or two queue managers have the name {which[1]}. "
            f"{link} accepts nothing until an operator accepts this store there. Accepting the "
            "peer here does not help.",
            (
                Choice(
                    remote,
                    f"at {link}: accepts this store as {which[1]} from then on; messages that "
                    "the old store had sent stay there; unsent ones are lost with the old store",
                ),
                Choice(
                    f"qmctl link start {link}",
                    f"then, at this queue manager: sends {_all(row)}, exactly once",
                ),
            ),
        )
    return (
        f"{link} has a different store than before",
        f"The store of {link} was created again, so its messages are lost; or another queue "
        "manager has the same name. Messages that the old store had committed were deleted here, "
        "and are not sent again.",
        (_accept(row, f"if its store was created again: {_sends_again(row)}"), _elsewhere(row)),
    )


def _restored(row: Row, code: str, text: str) -> Explanation:
    return (
        f"this store is older than the messages that {row['link']} has from it: {text}",
        "This queue manager was restored from a backup. Messages put after the backup are lost "
        f"here, unless {row['link']} has them. Messages in the backup may have been sent since. "
        "Messages put since the restore have ids that were used before, so the link stopped.",
        (
            _accept(row, _restored_effect(row, text)),
            Choice(
                "",
                "if the newer store still exists: stop this daemon and start it with that store; "
                "nothing is lost or duplicated",
            ),
        ),
    )


def _restored_effect(row: Row, text: str) -> str:
    """Returns the effect of accepting the peer. *text* may state the highest id that the peer has.

    Messages that got their id after the peer had reported its highest were never sent.
    """
    held = HOLDS.search(text)
    if not held or not _waiting(row):
        return _sends_again(row)
    highest = min(int(held[1]), int(held[2]) - 1 if held[2] else int(held[1]))
    count = min(max(highest - int(row.get("commit_id") or 0), 0), _waiting(row))
    if not count:
        return f"sends {_all(row)}, exactly once: all were put since the restore"
    which = "all" if count == _waiting(row) else f"at most {count:,}"
    return (
        f"sends {_all(row)} as a new stream: the peer may already have {which} (up to id "
        f"{highest}); of these, consumed ones arrive twice"
    )


def _peer_restored(row: Row, code: str, text: str) -> Explanation:
    link, ids = row["link"], BEHIND.search(text)
    gone = counted(int(ids[2]) - int(ids[1]), "message") if ids else "some messages"
    which = f" (ids {int(ids[1]) + 1} to {ids[2]})" if ids else ""
    return (
        f"{link} was restored to an older store, and lacks {gone}{which} that it had committed",
        "These messages were deleted here once they were committed, so no remedy restores them. "
        "Those consumed before the restore have been processed; the others are lost.",
        (
            _accept(row, f"{_sends_again(row)}; {gone} stay lost unless producers put them again"),
            Choice(
                f"qmctl link start {link}",
                f"after {link} was started with its newer store: nothing is lost or duplicated",
            ),
        ),
    )


def _damaged(row: Row, code: str, text: str) -> Explanation:
    return (
        f"a row of a store about this link is damaged: {text}",
        "The disk is damaged, here or at the peer: how much of the stream the peer holds is "
        "unknown.",
        (
            Choice(
                "qmctl store verify SNAPSHOT",
                "shows other damage (docs/operating.md, Verifying); changes nothing. A store "
                "restored from a snapshot lacks all later messages",
            ),
            _accept(row, _sends_again(row)),
        ),
    )


def _other(row: Row, code: str, text: str) -> Explanation:
    known = ErrorCode.__members__.get(code)
    means = (
        f"{known.means} {known.remedy}" if known else "The peer or this daemon refused the link."
    )
    again = f"once it is fixed: sends {_all(row)}, exactly once"
    choices: tuple[Choice, ...] = (Choice(f"qmctl link start {row['link']}", again),)
    if known:
        choices += (Choice(f"qmctl explain {code}", "explains the error; changes nothing"),)
    return f"refused with {code or 'an error'}: {text or 'no reason is given'}", means, choices
