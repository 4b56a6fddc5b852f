"""Checks that a link's peer holds the same stream as this end, to notice a restored store.

Both ends survive each other's crashes: an id that is durable at either end keeps its message. Only
a store that was restored to an older state, or created again (see pin_peer), breaks this rule.

A restored receiver lacks messages that it had committed and that the sender deleted. Nobody can
send them again. The sender states the lowest id that it still has; the receiver continues there and
reports how many messages may be lost. The sender reports this to its operators, too.

A restored sender gives old ids to new messages. Nobody knows which of the old ones the receiver has
consumed already, so an operator has to allow that messages may come twice.

The receiver remembers in which life of the sender its highest id came. A restored sender does not
know that life, or knows that the life ended with a lower id. UIDs prove less: the sender may have
deleted the message, or the same id or UID may be used again.
"""

from typing import Any

from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.link.outbox import LinkOutbox


def check(
    peer: str,
    outbox: LinkOutbox,
    since_id: int,
    commit_id: int,
    held_to: int,
    uid: bytes | None,
    life: bytes,
) -> None:
    """Raises RequestError if the peer's window does not belong to the stream of *outbox*.

    Args:
        peer: its name.
        outbox: the sending end.
        since_id: the commit id that was known when the path was opened.
        commit_id: the one that the peer reports now.
        held_to: the highest id that the peer holds.
        uid: encoded UID of the message with that id; None if the peer does not know it.
        life: of the sender, in which that message came; empty if the peer does not know it.

    Raises:
        RequestError: RESTORED: this store was restored. PEER_RESTORED: the peer's store was, and it
            cannot continue by itself.
    """
    next_id = outbox.queue.counters.next_arrival
    if held_to >= next_id:
        raise RequestError(
            ErrorCode.RESTORED,
            f"{peer} holds up to id {held_to}, but the next id to assign here is "
            f"{next_id}: this store was restored from an older state",
        )
    if commit_id < since_id:
        raise RequestError(
            ErrorCode.PEER_RESTORED,
            f"{peer} holds up to id {commit_id}, but had committed "
            f"{since_id}: its store was restored, and the messages between are lost there",
        )
    own = outbox.uid_at(held_to)
    is_known = uid is not None or held_to > since_id
    if own is not None and own != uid and is_known:
        raise RequestError(
            ErrorCode.RESTORED,
            f"{peer} holds another message than this store under id {held_to}: "
            "one of the two was restored from an older state",
        )
    # Ids up to our commit id were committed before any backup: both states agree on them.
    end = outbox.end_of(life) if life and held_to > outbox.commit_id else next_id
    if end is None or held_to >= end:
        raise RequestError(
            ErrorCode.RESTORED,
            f"{peer} holds up to id {held_to}, sent at a time that this store does not know of: it "
            "was restored from an older state",
        )


def report_restored(context: Context, peer: str, row: dict[str, Any], lost: int) -> None:
    """Reports to operators that *peer* was restored, and notes it in the *row* of its link.

    Args:
        lost: how many messages the peer had committed and may have lost.
    """
    row |= {"lost": row.get("lost", 0) + lost, "lost_us": context.now.wall_us}
    rows.put(context.tx, keys.SPACE_LINK + peer.encode(), pack(row))
    context.wrote = True
    context.event("link peer restored", link=peer, lost=lost)
    why = f"{peer} was restored to an older state: it may have lost {lost} messages"
    context.note("warning", "link peer restored", link=peer, why=why)
