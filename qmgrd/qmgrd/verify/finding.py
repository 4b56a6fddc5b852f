"""The kinds of fault in a store, and what each means for the operator."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

FINDINGS_MAX = 10_000  # beyond it, findings are only counted: the whole store may be damaged

MEANINGS = {
    "pages": "LMDB cannot be trusted with this file: restore the store from a snapshot",
    "leak": "disk space is lost to use, nothing else",
    "manifest": "the snapshot has changed since it was written: restore from another one",
    "key": "nothing reads this row; another one may be missing",
    "seal": "the queue manager cannot start: restore the store from a snapshot",
    "seal-stream": "its producer or link gets STORE_DAMAGED: start it again, or restore",
    "seal-origin": "puts of this origin are slower until the row is written again, nothing else",
    "seal-note": "the failure history of the message is lost, nothing else",
    "seal-group": "clients that use the group get STORE_DAMAGED: restore the store",
    "content": "the seal is valid but the content is not: a bug; please report it",
    "missing": "the queue manager cannot start: restore the store from a snapshot",
    "stray": "rows of something deleted or damaged: disk space is lost to use, nothing else",
    "depth": "limits and lists use a wrong number of messages",
    "bytes": "limits and lists use a wrong number of bytes",
    "volatile": "after a restart the queue has a wrong count of messages or bytes",
    "sums": "the counts of the queue do not add up: a bug; please report it",
    "arrival": "a put could replace a message: the queue manager cannot start",
    "entry": "the message cannot be read: it is set aside when its turn comes",
    "record": "the message is damaged: it is set aside when its turn comes, nobody gets it",
    "pieces": "the message is not whole: it is set aside when its turn comes, nobody gets it",
    "pieces-shared": "two messages share a body: one of them is set aside when its turn comes",
    "pieces-orphan": "pieces without a message: disk space is lost to use, nothing else",
    "index-missing": "a duplicate of the message would be accepted as a new one",
    "index-wrong": "a duplicate of the message would be accepted as a new one",
    "index-orphan": "its message does not exist: the next message with that UID replaces the row",
    "select-missing": "selection by correlation id or group does not find the message",
    "select-orphan": "selection by it finds nothing: disk space is lost to use, nothing else",
    "group-row": "the group may stop, or start with the wrong message: use skip, or restore",
    "chain-missing": "no consumer starts the group until a message of it is added or removed",
    "complete-missing": "consumers of complete groups do not get it until one of its "
    "messages leaves",
    "chain-orphan": "the entry leads to no group: disk space is lost to use, nothing else",
    "due-missing": "its time is ignored: it stays delayed, or is not removed after it expires",
    "due-orphan": "nothing happens then, or a delayed message is delivered too early",
    "remembered": "a message of that UID is refused as a duplicate forever",
    "note-missing": "the failure history of the message is lost, nothing else",
    "note-orphan": "a note without a message: disk space is lost to use, nothing else",
    "origin": "a duplicate of the message would be accepted as a new one",
    "holders": "a publication is deleted too early, or never: a bug; please report it",
    "retained": "new subscribers do not receive the retained publication of the topic",
    "parked": "a republish misses a parked publication, or finds none",
    "history": "an export misses rows, or waits for rows that never appear: a "
    "bug; please report it",
    "window": "pending messages are never sent: delete the link with --purge, create it again",
}


class Finding(NamedTuple):
    """A fault in a store."""

    fault: str  # a key of MEANINGS
    key: bytes  # of the row; may be empty
    what: str

    @property
    def means(self) -> str:
        """The consequence of the fault."""
        return MEANINGS[self.fault]


@dataclass
class Findings:
    """All faults that were found.

    Invariant: ``counts`` includes those that were not kept.
    """

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    # called with the number of further rows read
    looked_at: Callable[[int], object] = lambda rows: None

    def add(self, fault: str, key: bytes, what: str) -> None:
        """Records a *fault*."""
        assert fault in MEANINGS, fault
        self.counts[fault] += 1
        if len(self.kept) < FINDINGS_MAX:
            self.kept.append(Finding(fault, key, what))
