"""Daemons that are wrong on purpose, to run: ``python broken.py swallow --config ...``."""

import sys
from contextlib import suppress

from qmgrd.core.context import Outcome
from qmgrd.core.kv import Now, StoreFailed
from qmgrd.core.turn import Turns
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


if __name__ == "__main__":
    {"swallow": swallow, "hurry": hurry}[sys.argv.pop(1)]()
    main()
