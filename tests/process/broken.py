"""Daemons that are wrong on purpose, to run: ``python broken.py swallow --config ...``."""

import sys
from contextlib import suppress

from qmgrd.core import put, settle
from qmgrd.core.context import Outcome
from qmgrd.core.kv import Now, StoreFailed, Transaction
from qmgrd.core.lease import Lease
from qmgrd.core.queue import Queue
from qmgrd.core.returns import BACKED_OUT, How
from qmgrd.core.session import Session
from qmgrd.core.turn import Turns
from qmgrd.core.unit import Unit
from qmgrd.core.units import Units
from qmgrd.main import main
from qmgrd.store.lmdb_store import LmdbStore

commit = LmdbStore.commit


def swallow() -> None:
    """A commit that failed is taken for one that did not."""

    def swallowing(self: LmdbStore) -> None:
        with suppress(StoreFailed):
            commit(self)

    LmdbStore.commit = swallowing  # type: ignore[method-assign]


def hurry() -> None:
    """What a turn wants sent is sent, then the turn is committed, with the next."""

    def run(self: Turns, now: Now) -> Outcome:
        if self._store._txn is not None:  # type: ignore[attr-defined]
            self._store.commit()
        return self._apply(now)

    Turns.run = run  # type: ignore[method-assign]


def halve() -> None:
    """A commit puts the first of its unit, and answers well."""
    let_go = Unit.let_go
    Unit.let_go = lambda self: let_go(self)[:1]  # type: ignore[method-assign]


def keep() -> None:
    """A unit that is backed out has been put all the same."""
    undo = Units.undo

    def putting(self: Units, session: Session, unit: Unit, how: How = BACKED_OUT) -> None:
        for queue, prepared, arrival, _ in unit.puts:
            put.append(queue, self._context.tx, prepared, arrival)
            self._context.touch(queue)
        undo(self, session, unit, how)

    Units.undo = putting  # type: ignore[method-assign]


def repeat() -> None:
    """A commit leaves what its unit got, and answers well."""
    consume = settle.consume

    def coming_back(queue: Queue, tx: Transaction, now: Now, lease: Lease) -> None:
        if lease.lessee.is_unit and lease.arrival % 10 == 0:
            settle.come_back(queue, tx, lease)
        else:
            consume(queue, tx, now, lease)

    settle.consume = coming_back


if __name__ == "__main__":
    variants = {
        "swallow": swallow, "hurry": hurry, "halve": halve, "keep": keep, "repeat": repeat,
    }  # fmt: skip
    variants[sys.argv.pop(1)]()
    main()
