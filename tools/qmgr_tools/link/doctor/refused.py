"""A link that is refused: what happened, what is safe, what each way on does to messages.

The daemon tells the code and a sentence; the rest is what the protocol says of links (section 9).
"""

import re
from typing import Any

from qmgr_protocol.errors import ErrorCode
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import counted, duration, messages
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity, text_of

Row = dict[str, Any]
OTHER_STORE = re.compile(r"queue manager (\S+) (?:was store|has another store)")
AT_PEER = re.compile(r"(?:in that case, at|if so, say at|allow them, at) (\S+): (qmctl .*)$")
HOLDS = re.compile(
    r"holds (?:up to|another message than this store under) id (\d+)"
    r"(?:, but the next id to assign here is (\d+))?"
)
BEHIND = re.compile(r"holds up to id (\d+), but had committed (\d+)")


def found(row: Row) -> Finding:
    """Return the finding of a link, given its *row*, that is refused."""
    code, text = text_of(row.get("error"))
    say = {
        "PEER_WRONG": _peer_wrong,
        "PEER_NOT_ALLOWED": _not_allowed,
        "PEER_STORE_CHANGED": _store_changed,
        "RESTORED": _restored,
        "PEER_RESTORED": _peer_restored,
        "STORE_DAMAGED": _damaged,
    }.get(code, _anything)
    happened, why, choices = say(row, code, one_line(text))
    waiting = _waiting(row)
    safe = f"{messages(waiting)} on it, safe here" if waiting else "nothing waits on it"
    name = "refused-" + (code or "unknown").lower().replace("_", "-")
    retry_ms = row.get("retry_ms")
    goes_on = "it stays refused" if retry_ms is None else f"it asks again in {duration(retry_ms)}"
    return Finding(name, Severity.CRITICAL, f"{happened}; {goes_on}, {safe}", why, choices)


Told = tuple[str, str, tuple[Choice, ...]]  # what happened, why it is refused, what can be done


UNKNOWN_ADDRESS = "HOST:PORT"


def address_of(row: Row) -> str:
    """Return where the peer was met last, or is looked for."""
    met = [str(path.get("address") or "") for path in row.get("paths") or []]
    known = [address for address in met if ":" in address and " " not in address]
    return str((known or row.get("addresses") or [UNKNOWN_ADDRESS])[0])


def _waiting(row: Row) -> int:
    return int(row.get("waiting") or 0)


def _all(row: Row) -> str:
    waiting = _waiting(row)
    return f"what waits here ({messages(waiting)})" if waiting else "what is put from now on"


def _accept(row: Row, effect: str) -> Choice:
    return Choice(f"qmctl link start {row['link']} --accept", effect)


def _elsewhere(row: Row) -> Choice:
    effect = f"{_all(row)} goes to that address, once and only once; nothing is lost or doubled"
    return Choice(f"qmctl link alter {row['link']} HOST:PORT", effect)


def _sends_anew(row: Row) -> str:
    """Return what accepting does to what waits, however it came to that."""
    if not _waiting(row):
        return "nothing waits here, so nothing arrives twice"
    return (
        f"{_all(row)} goes as a new stream: some of it may be there already; what of that was "
        "consumed there arrives twice, what is still on its queue there does not"
    )


def _peer_wrong(row: Row, code: str, text: str) -> Told:
    return (
        f"another queue manager than {row['link']} answers: {text.partition(';')[0]}",
        "The address is wrong, or another queue manager was started there. It was sent nothing. "
        "To accept the peer does not help here.",
        (_elsewhere(row),),
    )


def _not_allowed(row: Row, code: str, text: str) -> Told:
    link, there = str(row["link"]), AT_PEER.search(text)
    command = there[2] if there else "qmctl link allow NAME"
    remote = command.replace("qmctl ", f"qmctl -c {address_of(row)} ", 1)
    return (
        f"{link} accepts no links from this queue manager",
        f"An operator of {link} has to allow this queue manager before it may send there. {link} "
        "was sent nothing.",
        (
            Choice(
                remote,
                f"at {link}: {_all(row)} goes, once and only once. With --store-id, as "
                "qmctl status shows it here, nobody else can come first",
            ),
            Choice(f"qmctl link start {link}", "after that, here: asks again now"),
        ),
    )


def _store_changed(row: Row, code: str, text: str) -> Told:
    link = str(row["link"])
    which, there = OTHER_STORE.search(text), AT_PEER.search(text)
    if which and which[1] != link:  # It is the peer that says so, of this store.
        where = there[1] if there else link
        command = there[2] if there else f"qmctl link delete {which[1]}"
        remote = command.replace("qmctl ", f"qmctl -c {address_of(row)} ", 1)
        return (
            f"{where} does not take {which[1]}: it knows it with another store than this one",
            f"The store here was made anew, or two queue managers are called {which[1]}. {where} "
            "takes nothing until it was told there that this is the one. To accept the peer here "
            "does not help.",
            (
                Choice(
                    remote,
                    f"at {where}: it takes the store here for {which[1]} from now on; "
                    "what the old store had sent stays there; what it had not is not here",
                ),
                Choice(
                    f"qmctl link start {link}",
                    f"after that, here: {_all(row)} goes, once and only once",
                ),
            ),
        )
    return (
        f"{link} has another store than before",
        f"The store of {link} was made anew, so what it held is gone there; or another queue "
        "manager goes by that name. What it had committed was deleted here, and is not sent again.",
        (_accept(row, f"if its store was made anew: {_sends_anew(row)}"), _elsewhere(row)),
    )


def _restored(row: Row, code: str, text: str) -> Told:
    return (
        f"the store here is older than what {row['link']} holds of it: {text}",
        "This queue manager was put back to a backup. What was put here after the backup is gone "
        f"here, unless it had gone to {row['link']} already. What waits here from the backup may "
        "have been sent since; what was put since the restore has ids that were given before, "
        "which is why it stops.",
        (
            _accept(row, _restored_goes(row, text)),
            Choice(
                "",
                "if the newer store is still there: stop this daemon and start it with "
                "that one; nothing is lost or doubled then",
            ),
        ),
    )


def _restored_goes(row: Row, text: str) -> str:
    """Return what accepting does, where *text* may tell how much of it can be there already.

    What got its id after the peer had told which it holds was never sent.
    """
    held = HOLDS.search(text)
    if not held or not _waiting(row):
        return _sends_anew(row)
    highest = min(int(held[1]), int(held[2]) - 1 if held[2] else int(held[1]))
    count = min(max(highest - int(row.get("commit_id") or 0), 0), _waiting(row))
    if not count:
        return f"{_all(row)} goes, once and only once: all of it was put since the restore"
    which = messages(count) if count == _waiting(row) else f"{messages(count)} of it, no more,"
    return (
        f"{_all(row)} goes as a new stream: {which} (up to id {highest}) may be there already, "
        "and what of that was consumed there arrives twice"
    )


def _peer_restored(row: Row, code: str, text: str) -> Told:
    link, ids = row["link"], BEHIND.search(text)
    gone = counted(int(ids[2]) - int(ids[1]), "message") if ids else "some messages"
    which = f" (ids {int(ids[1]) + 1} to {ids[2]})" if ids else ""
    return (
        f"{link} was put back to an older store, and lacks {gone}{which} that it had committed",
        "They were deleted here as it had them for good, so no choice here brings them back. Those "
        "that were consumed there before have done their work; the others are lost.",
        (
            _accept(row, f"{_sends_anew(row)}; {gone} stay lost unless somebody puts them again"),
            Choice(
                f"qmctl link start {link}",
                f"after {link} was started with its newer store: nothing is lost or doubled",
            ),
        ),
    )


def _damaged(row: Row, code: str, text: str) -> Told:
    return (
        f"a row of a store about this link is damaged: {text}",
        "The disk rots, here or at the peer: up to where the peer holds the stream cannot be "
        "told any more.",
        (
            Choice(
                "qmctl store verify SNAPSHOT",
                "changes nothing: tells what else is damaged (docs/operating.md, Verifying). "
                "A store restored from a snapshot lacks what came after that",
            ),
            _accept(row, _sends_anew(row)),
        ),
    )


def _anything(row: Row, code: str, text: str) -> Told:
    known = ErrorCode.__members__.get(code)
    means = f"{known.means} {known.remedy}" if known else "The peer, or this daemon, said so."
    again = f"once it is mended: {_all(row)} goes, once and only once"
    choices: tuple[Choice, ...] = (Choice(f"qmctl link start {row['link']}", again),)
    if known:
        choices += (Choice(f"qmctl explain {code}", "changes nothing: tells what the error means"),)
    return f"refused with {code or 'an error'}: {text or 'no reason is told'}", means, choices
