"""A workload of rows, on the store alone."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from qmgr_config.model import DurabilityConfig
from qmgrd.store.opening import open_store
from tests.process.powercut.witness import MAP_BYTES, kill
from tests.process.powercut.work import Work

COUNT = b"\x10count"  # a row that each turn changes, so that no two turns have the same rows
SIZES = {"p": 20, "l": 9_000, "f": 60_000}  # small, several sectors, too large for the journal


class RowsWork(Work):
    """Puts and deletes rows.

    p, l, f   puts a small row, a large row, and one that does not fit into the journal
    w, n      puts a small row in a turn that does not wait for the disk; a record reaches the disk
    d         deletes a row
    a         a turn that is discarded
    c, s      puts a row in a turn that is a checkpoint, takes a snapshot
    r, k, x   a clean restart, a kill, a power cut
    j         a kill, a start without a journal, a turn, and a start with a journal
    """

    OPERATIONS: ClassVar[str] = "pwlnfdacsrkxj"

    def operations(self) -> dict[str, Callable[[], object]]:
        puts = {letter: partial(self._put, size) for letter, size in SIZES.items()}
        others: dict[str, Callable[[], object]] = {
            "w": partial(self._put, SIZES["p"], is_ahead=True),
            "n": lambda: self.store.land(),
            "d": self._delete,
            "a": self._discard,
            "j": self._go_on_without_a_journal,
        }
        return super().operations() | puts | others

    def started(self) -> None:
        """Needs no preparation."""

    def stopping(self) -> None:
        """Needs no preparation."""

    def _put(self, size: int, *, is_ahead: bool = False) -> None:
        number = len(self.witness.turns)
        tx = self.store.begin()
        tx.put(COUNT, b"%d" % number)
        tx.put(b"\x10%d" % (number % 4), _value(number, size))
        tx.put(b"\x20%d" % (number % 4), _value(number, 10))
        if is_ahead:
            self.store.commit_soon()
        else:
            self.store.commit()

    def _delete(self) -> None:
        tx = self.store.begin()
        tx.put(COUNT, b"%d" % len(self.witness.turns))
        for key in sorted(self.witness.rows)[:2]:
            if key != COUNT:
                tx.delete(key)
        self.store.commit()

    def _discard(self) -> None:
        tx = self.store.begin()
        tx.put(COUNT, b"discarded")
        tx.put(b"\x10discarded", _value(0, 5_000))
        self.store.abort()
        self.store.send_durable()
        self.store.waiting.clear()
        self.find_turn()

    def _go_on_without_a_journal(self) -> None:
        kill(self.store)
        self.store = self._opened()
        self.find_turn()
        kill(self.store)
        plain = open_store(self.directory, MAP_BYTES, DurabilityConfig(journal=False))
        value = b"%d" % len(self.witness.turns)
        plain.begin().put(COUNT, value)
        self.witness.tries([COUNT, value])
        plain.commit()
        self.witness.acknowledges()
        plain.close()
        self.store = self._opened()


def _value(number: int, size: int) -> bytes:
    return (number.to_bytes(4, "big") * (size // 4 + 1))[:size]
