"""Runs a daemon with a planted bug: ``python -m tests.process.broken swallow --config ...``."""

import sys
import time
from contextlib import suppress
from typing import Any

from qmgr_protocol.messages import Put
from qmgr_protocol.window import Inbox
from qmgrd.core.context.context import Context
from qmgrd.core.context.eviction import MakeDeadLetter
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.limits.unread_replies import NOTHING_MADE
from qmgrd.core.link.inbox import LinkInbox
from qmgrd.core.queue import put, settle
from qmgrd.core.queue.held_puts import HeldPut, append_held
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.references import References
from qmgrd.core.requests.rights import Guard
from qmgrd.core.returns.returns import BACKED_OUT, ReturnTerms
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.unit import SessionUnit
from qmgrd.core.sessions.units import Units
from qmgrd.core.turn import Turns
from qmgrd.main import main
from qmgrd.store import journal
from qmgrd.store.journal import JournalFile

LATE_MS = 2_000


def swallow() -> None:
    """Makes the journal ignore a failure to write or to flush a record."""
    append = JournalFile.append

    def swallowing(self: JournalFile, number: int, content: bytes) -> None:
        with suppress(OSError):
            append(self, number, content)

    JournalFile.append = swallowing  # type: ignore[method-assign]


def forget() -> None:
    """Makes the journal wait instead of flushing its records."""
    journal.os.fdatasync = lambda fd: time.sleep(0.001)  # type: ignore[attr-defined]


def hurry() -> None:
    """Sends the output of a turn before its commit, which happens with the next turn."""

    def run_ahead(self: Turns, now: Now) -> None:
        if self._store._is_turn:  # type: ignore[attr-defined]
            self._store.commit()
        self._outcomes.append((0, self._apply(now), NOTHING_MADE))

    Turns.run_ahead = run_ahead  # type: ignore[method-assign]


def halve() -> None:
    """Makes a commit put only the first message of its unit, but report success."""
    remove_puts = SessionUnit.remove_puts
    SessionUnit.remove_puts = lambda self: remove_puts(self)[:1]  # type: ignore[method-assign]


def keep() -> None:
    """Makes a backout put the messages of its unit anyway."""
    undo = Units.undo

    def putting(
        self: Units, session: Session, unit: SessionUnit, how: ReturnTerms = BACKED_OUT
    ) -> None:
        for queue, prepared, arrival, _ in unit.puts:
            put.append(queue, self._context.tx, prepared, arrival)
            self._context.mark_changed(queue)
        undo(self, session, unit, how)

    Units.undo = putting  # type: ignore[method-assign]


def repeat() -> None:
    """Makes a commit leave some messages of its unit on the queue, but report success."""
    consume = settle.consume

    def coming_back(queue: Queue, tx: Transaction, now: Now, lease: Lease) -> None:
        if lease.lessee.is_unit and lease.arrival % 10 == 0:
            settle.return_to_queue(queue, tx, lease)
        else:
            consume(queue, tx, now, lease)

    settle.consume = coming_back


def gulp() -> None:
    """Makes the receiver of a link record puts after a gap as stored without storing them."""
    receive = LinkInbox.receive

    def gulping(
        self: LinkInbox,
        context: Context,
        make_dead_letter: MakeDeadLetter,
        queue: Queue,
        puts: Put,
        target: str = "",
    ) -> put.PutOutcome:
        if puts.first_id <= self.inbox.commit_id + 1:
            return receive(self, context, make_dead_letter, queue, puts, target)
        for seq_id in self.inbox.missing(puts.first_id, len(puts.records)):
            self.mark_held([seq_id], None)
        return put.PutOutcome([], [])

    LinkInbox.receive = gulping  # type: ignore[assignment, method-assign]


def tear() -> None:
    """Makes a commit put the first message of its unit, and the others in a later turn."""
    remove_puts = Units._let_go

    def tearing(self: Units, unit: SessionUnit) -> list[HeldPut]:
        held, context = remove_puts(self, unit), self._context

        def put_rest() -> None:
            for one in held[1:]:
                append_held(one.queue, context.tx, [one])
                context.mark_changed(one.queue)

        context.timers.at(context.now.ms + LATE_MS, put_rest)
        return held[:1]

    Units._let_go = tearing  # type: ignore[method-assign]


def boast() -> None:
    """Makes the receiver of a link record ids as held before it stores the messages."""
    receive = LinkInbox.receive

    def boasting(
        self: LinkInbox,
        context: Context,
        make_dead_letter: MakeDeadLetter,
        queue: Queue,
        puts: Put,
        target: str = "",
    ) -> put.PutOutcome:
        later = LinkInbox(self.stream_id, self.peer, Inbox(self.inbox.window, puts.first_id - 1))
        records = [
            record
            for seq_id, record in enumerate(puts.records, puts.first_id)
            if not self.inbox.holds(seq_id)
        ]
        for seq_id in self.inbox.missing(puts.first_id, len(puts.records)):
            self.mark_held([seq_id], None)
        stored = puts._replace(records=records)

        def store() -> None:
            receive(later, context, make_dead_letter, queue, stored, target)

        context.timers.at(context.now.ms + LATE_MS, store)
        return put.PutOutcome([], [])

    LinkInbox.receive = boasting  # type: ignore[assignment, method-assign]


def hoard() -> None:
    """Keeps publications that no subscription holds."""
    References.remove = lambda self, arrival: None  # type: ignore[method-assign]


def admit() -> None:
    """Lets each user do everything, whatever its rights are."""
    Guard.check = lambda self, session, message: None  # type: ignore[method-assign]


def linger() -> None:
    """Lets a user do again what it was allowed to do before, after the right was revoked."""
    check, allowed = Guard.check, set[tuple[str, str, str]]()

    def remembering(self: Guard, session: Session, message: Any) -> None:
        key = session.identity.user, type(message).__name__, getattr(message, "queue", "")
        if key not in allowed:
            check(self, session, message)
            allowed.add(key)

    Guard.check = remembering  # type: ignore[method-assign]


if __name__ == "__main__":
    variants = {
        "swallow": swallow,
        "forget": forget,
        "hurry": hurry,
        "halve": halve,
        "keep": keep,
        "repeat": repeat,
        "gulp": gulp,
        "hoard": hoard,
        "tear": tear,
        "boast": boast,
        "admit": admit,
        "linger": linger,
    }
    variants[sys.argv.pop(1)]()
    main()
