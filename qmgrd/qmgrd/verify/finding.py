"""What is wrong with a store: which kinds of fault there are, and what each means to its owner."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

FINDINGS_MAX = 10_000  # are kept, the rest is counted: a store may be rotten through and through

MEANINGS = {
    "pages": "LMDB cannot be trusted with this file: restore the store from a snapshot",
    "leak": "disk space is lost to use, nothing else",
    "manifest": "the snapshot is not what was written: restore from another one",
    "key": "nothing reads this row; another may be missing in its place",
    "seal": "the queue manager does not start on it: restore the store from a snapshot",
    "seal-stream": "its producer or link is told STORE_DAMAGED: begin it anew, or restore",
    "seal-origin": "puts of this origin are slower until it is written anew, nothing else",
    "seal-note": "what is known of the failures of the message is lost, nothing else",
    "seal-group": "who puts or gets messages of the group is told STORE_DAMAGED: restore the store",
    "content": "the seal is right and the row makes no sense: a bug; please report it",
    "missing": "the queue manager does not start on it: restore the store from a snapshot",
    "stray": "rows of something deleted or rotten: disk space is lost to use, nothing else",
    "depth": "limits and lists go by a wrong number of messages",
    "bytes": "limits and lists go by a wrong number of bytes",
    "volatile": "after a restart the queue counts a wrong number of messages or bytes",
    "sums": "what the queue counted does not add up: a bug; please report it",
    "arrival": "a put could replace a message: the queue manager does not start on it",
    "entry": "the message cannot be read: it is set aside when its turn comes",
    "record": "the message is damaged: it is set aside when its turn comes, nobody gets it",
    "pieces": "the message is not whole: it is set aside when its turn comes, nobody gets it",
    "pieces-shared": "two messages have one body: one of them is set aside when its turn comes",
    "pieces-orphan": "pieces of no message: disk space is lost to use, nothing else",
    "index-missing": "a second copy of the message would be taken for a new one",
    "index-wrong": "a second copy of the message would be taken for a new one",
    "index-orphan": "names no message that is there: the next of that UID takes it over",
    "select-missing": "who selects by correlation id or group does not find the message",
    "select-orphan": "who selects by it looks in vain: disk space is lost to use, nothing else",
    "group-row": "the group may stop, or begin with the wrong message: skip in it, or restore",
    "chain-missing": "nobody begins with the group until another message of it comes or goes",
    "complete-missing": "no consumer of complete groups has it until one of its messages leaves",
    "chain-orphan": "who begins with a group looks in vain there: disk space is lost, nothing else",
    "due-missing": "its time is not looked at: it stays delayed, or is not removed once expired",
    "due-orphan": "nothing happens then, or a message that is delayed is handed out too early",
    "remembered": "a message of that UID is refused as a duplicate for ever",
    "note-missing": "what is known of the failures of the message is lost, nothing else",
    "note-orphan": "a note of no message: disk space is lost to use, nothing else",
    "origin": "a second copy of the message would be taken for a new one",
    "holders": "a publication goes too early, or stays for nobody: a bug; please report it",
    "retained": "who subscribes to the topic does not begin with what it retained",
    "parked": "what is parked is not found, or sought in vain, by who republishes",
    "history": "an export misses rows, or waits for some that never come: a bug; please report it",
    "window": "messages wait that are never sent: delete the link with --purge, make it anew",
}


class Finding(NamedTuple):
    """One thing that is wrong."""

    fault: str  # a key of MEANINGS
    key: bytes  # of the row, or nothing
    what: str

    @property
    def means(self) -> str:
        """What follows from it."""
        return MEANINGS[self.fault]


@dataclass
class Findings:
    """All that was found. Invariant: ``counts`` knows also of those that were not kept."""

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    looked_at: Callable[[int], object] = lambda rows: None  # is told how many rows more were read

    def add(self, fault: str, key: bytes, what: str) -> None:
        """Takes note of a *fault*."""
        assert fault in MEANINGS, fault
        self.counts[fault] += 1
        if len(self.kept) < FINDINGS_MAX:
            self.kept.append(Finding(fault, key, what))
