"""Checks that a link's peer holds the same stream as this end, to detect a restored store.

Each end survives crashes of the other: an id that is durable at either end keeps its message. Only
a store that was restored to an older state, or created again (see peers.py), breaks this rule.

A restored receiver lacks messages that it had committed and that the sender has deleted. These
messages cannot be sent again. The sender states the lowest id that it still has. The receiver
continues at that id and reports how many messages may be lost. The sender reports this number to
its operators as well.

A restored sender assigns old ids to new messages. Neither end knows which of the old messages the
receiver has already consumed. Therefore, an operator has to accept that messages may arrive twice.

The receiver remembers the life of the sender in which its highest id arrived. A restored sender
does not know that life, or knows that the life ended with a lower id. UIDs are weaker evidence,
because the sender may have deleted the message, or the same id or UID may have been used again.
"""

from typing import Any

from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.field import SEQ_END
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
        peer: The name of the peer.
        outbox: The sending end.
        since_id: The commit id that this end knew when the path was opened.
        commit_id: The commit id that the peer reports now.
        held_to: The highest id that the peer holds.
        uid: The encoded UID of the message with id *held_to*, or None if the peer does not know
            it.
        life: The sender's life in which that message arrived; empty if the peer does not know
            it.

    Raises:
        RequestError: RESTORED if this store was restored. PEER_RESTORED if the peer's store was
            restored and the peer cannot continue by itself.
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
            f"{since_id}: its store was restored and has lost the messages in between",
        )
    own = outbox.uid_at(held_to)
    is_known = uid is not None or held_to > since_id
    if own is not None and own != uid and is_known:
        raise RequestError(
            ErrorCode.RESTORED,
            f"{peer} and this store hold different messages under id {held_to}: "
            "one of the two stores was restored from an older state",
        )
    # Ids up to the commit id were committed before any backup was made, so both states agree on
    # them.
    end = outbox.end_of(life) if life and held_to > outbox.commit_id else next_id
    if end is None or held_to >= end:
        raise RequestError(
            ErrorCode.RESTORED,
            f"{peer} holds up to id {held_to}, which this store has no record of sending: it "
            "was restored from an older state",
        )


def report_restored(context: Context, peer: str, row: dict[str, Any], lost: int) -> None:
    """Reports to operators that *peer* was restored, and records the loss in the *row* of its link.

    Args:
        lost: The number of messages that the peer had committed and may have lost.
    """
    total = min(row.get("lost", 0) + lost, SEQ_END - 1)
    row |= {"lost": total, "lost_us": context.now.wall_us}
    rows.put(context.tx, keys.SPACE_LINK + peer.encode(), pack(row))
    context.wrote = True
    context.event("link peer restored", link=peer, lost=lost)
    why = f"{peer} was restored to an older state: it may have lost {lost} messages"
    context.note("warning", "link peer restored", link=peer, why=why)
