"""The kinds of fault in a store, and their consequences for the operator."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

# Above this limit, findings are only counted, because the whole store may be damaged.
FINDINGS_MAX = 10_000

MEANINGS = {
    "pages": "LMDB cannot be trusted with this file: restore the store from a snapshot",
    "leak": "disk space cannot be used; no other effect",
    "manifest": "the snapshot was changed after it was written: restore from another snapshot",
    "journal": "the queue manager cannot start: restore the store from a snapshot",
    "key": "this row is never read; another row may be missing",
    "seal": "the queue manager cannot start: restore the store from a snapshot",
    "seal-stream": "its producer or link gets STORE_DAMAGED: restart it, or restore the store",
    "seal-origin": "puts of this origin are slower until the row is rewritten; no other effect",
    "seal-note": "the failure history of the message is lost; no other effect",
    "seal-group": "clients that use the group get STORE_DAMAGED: restore the store",
    "content": "the seal is valid but the content is not: a bug; please report it",
    "missing": "the queue manager cannot start: restore the store from a snapshot",
    "stray": "rows of a deleted or damaged object: disk space cannot be used; no other effect",
    "depth": "limits and lists use an incorrect number of messages",
    "bytes": "limits and lists use an incorrect number of bytes",
    "volatile": "after a restart, the queue has an incorrect count of messages or bytes",
    "sums": "the counts of the queue do not add up: a bug; please report it",
    "arrival": "a put could replace a message: the queue manager cannot start",
    "entry": "the message cannot be read: it is set aside instead of being delivered",
    "record": "the message is damaged: it is set aside instead of being delivered",
    "pieces": "the message is incomplete: it is set aside instead of being delivered",
    "pieces-shared": "two messages share a body: one is set aside instead of being delivered",
    "pieces-orphan": "pieces without a message: disk space cannot be used; no other effect",
    "index-missing": "a duplicate of the message would be accepted as a new message",
    "index-wrong": "a duplicate of the message would be accepted as a new message",
    "index-orphan": "its message does not exist: the next message with that UID replaces the row",
    "index-order": "a duplicate of the message would be accepted as a new message",
    "unindexed": "duplicates of messages without an index row would be accepted as new messages, "
    "or the queue writes index rows that it does not need",
    "select-missing": "selection by correlation id or group does not find the message",
    "select-orphan": "the row refers to no message: disk space cannot be used; no other effect",
    "group-row": "the group may stop or start with the wrong message: use skip, or restore",
    "chain-missing": "no consumer starts the group until one of its messages is added or removed",
    "complete-missing": "consumers of complete groups do not get the group until one of its "
    "messages leaves",
    "chain-orphan": "the entry refers to no group: disk space cannot be used; no other effect",
    "due-missing": "the message stays delayed, or is not removed when it expires",
    "due-orphan": "the row has no effect, or a delayed message is delivered too early",
    "remembered": "a message with that UID is refused as a duplicate forever",
    "note-missing": "the failure history of the message is lost; no other effect",
    "note-orphan": "a note without a message: disk space cannot be used; no other effect",
    "origin": "a duplicate of the message would be accepted as a new message",
    "holders": "a publication is deleted too early, or never: a bug; please report it",
    "retained": "new subscribers do not receive the retained publication of the topic",
    "parked": "a republish job misses a parked publication, or finds none",
    "history": "an export misses rows, or waits for rows that never appear: a "
    "bug; please report it",
    "window": "pending messages are never sent: delete the link with --purge, and create it again",
}


class Finding(NamedTuple):
    """A fault in a store."""

    fault: str  # the kind of fault, a key of MEANINGS
    key: bytes  # the key of the row; may be empty
    what: str

    @property
    def means(self) -> str:
        """The consequence of the fault for the operator."""
        return MEANINGS[self.fault]


@dataclass
class Findings:
    """All faults found in a store.

    Invariant: ``counts`` includes the findings that were not kept.
    """

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    # A function that receives the number of further rows read.
    looked_at: Callable[[int], object] = lambda rows: None

    def add(self, fault: str, key: bytes, what: str) -> None:
        """Records a *fault*."""
        assert fault in MEANINGS, fault
        self.counts[fault] += 1
        if len(self.kept) < FINDINGS_MAX:
            self.kept.append(Finding(fault, key, what))
