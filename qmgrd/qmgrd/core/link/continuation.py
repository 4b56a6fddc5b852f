"""Whether what a link's peer holds belongs to what is held here, or this store was put back.

Both ends outlive each other's crashes: an id, once durable at either end, stays what it is. Only a
store that was put back to an older state breaks that, or one that was made anew (see pin_peer).

A receiver that was put back lacks what it had committed, and the sender deleted. Nobody can bring
that again: it is told what the lowest id is that can still come, goes on there, and tells how many
may be lost; the sender tells it, too, where the answer arrives. A sender that was put back gives
ids to other messages than before. What of them the receiver has consumed already nobody knows:
people have to say that it may come twice.

The receiver knows in which life of the sender the highest id came that it holds. A sender that was
put back does not know that life, or knows that it had given fewer ids when it ended. UIDs tell
less: a message may be gone at the sender, or come to have the same id, or the same UID, once more.
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
    """Raise RequestError where the peer's window is not of the stream of *outbox*.

    Args:
        peer: its name.
        outbox: what is held here.
        since_id: the commit id that was known as the peer was asked.
        commit_id: what it says now.
        held_to: the highest id that it holds.
        uid: encoded, of the message under that one; None where it is not known there.
        life: of the sender in which that one came; empty where it is not known there.

    Raises:
        RequestError: RESTORED, this store is an older one; PEER_RESTORED, the peer's is, and it
            does not go on by itself.
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
            f"{since_id}: its store was restored, what lies between is lost there",
        )
    own = outbox.uid_at(held_to)
    is_known = uid is not None or held_to > since_id
    if own is not None and own != uid and is_known:
        raise RequestError(
            ErrorCode.RESTORED,
            f"{peer} holds another message than this store under id {held_to}: "
            "one of the two was restored from an older state",
        )
    # What is committed here was so before a backup was taken: of that both states are one.
    end = outbox.end_of(life) if life and held_to > outbox.commit_id else next_id
    if end is None or held_to >= end:
        raise RequestError(
            ErrorCode.RESTORED,
            f"{peer} holds up to id {held_to}, sent at a time that this store does not know of: it "
            "was restored from an older state",
        )


def tell_restored(context: Context, peer: str, row: dict[str, Any], lost: int) -> None:
    """Have operators know that *peer* was put back, and keep it in the *row* of its link.

    Args:
        lost: how many messages that it had committed it may have lost.
    """
    row |= {"lost": row.get("lost", 0) + lost, "lost_us": context.now.wall_us}
    rows.put(context.tx, keys.SPACE_LINK + peer.encode(), pack(row))
    context.wrote = True
    context.event("link peer restored", link=peer, lost=lost)
    why = f"{peer} was put back to an older state: it may have lost {lost} messages"
    context.note("warning", "link peer restored", link=peer, why=why)
