"""Tests of turns that go on while the records of earlier turns are on their way to a slow disk."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store import flush_time, recorded_store
from qmgrd.store.journal import BLOCK_BYTES
from qmgrd.store.journal_store import JournalStore
from tests.slow_disk import SlowDisk, SlowStore, slow_store

MAP_BYTES = 1 << 30
FILE_BYTES = 8 * BLOCK_BYTES

Slow = tuple[SlowStore, SlowDisk]


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    """A store that has made its first checkpoint, and its disk."""
    store, disk = slow_store(tmp_path / "qm", MAP_BYTES, FILE_BYTES)
    turn(store, 0)
    yield store, disk
    store.close()


def turn(store: JournalStore, number: int, size: int = 10) -> int:
    """Changes a row in a turn, and returns the number of its record."""
    store.begin().put(b"\x10", b"%d." % number + bytes(size))
    return store.commit_soon()


def turn_of(store: JournalStore) -> int:
    """Returns the number of the last turn that *store* has."""
    value = store.begin().get(b"\x10")
    store.commit()
    return int(value.partition(b".")[0])


def turn_after_a_kill(store: JournalStore) -> int:
    """Returns the number of the last turn that a start after a kill would find now."""
    with tempfile.TemporaryDirectory() as directory:
        copy = shutil.copytree(store.directory, Path(directory) / "qm")
        again, _ = slow_store(copy, MAP_BYTES, FILE_BYTES)
        number = turn_of(again)
        again.abort()
        again.close()
    return number


def test_turns_that_follow_the_answers_of_a_record_share_the_next_one(slow: Slow) -> None:
    """Otherwise, every second record would have the puts of a client, at half the rate."""
    store, disk = slow
    disk.later = []
    first, second = turn(store, 1), turn(store, 2)
    disk.land()
    assert store.durable == first
    assert turn(store, 3) == second
    (send_off,) = disk.later
    send_off()
    disk.land()
    assert store.durable == second
    assert turn_after_a_kill(store) == 3


def test_store_may_close_while_turns_wait_for_those_that_follow(slow: Slow) -> None:
    store, disk = slow
    disk.later = []
    turn(store, 1), turn(store, 2)
    disk.land()
    store.settle()
    (send_off,) = disk.later
    send_off()
    assert turn_after_a_kill(store) == 2


def test_turns_during_a_flush_share_the_next_record(slow: Slow) -> None:
    store, disk = slow
    first = turn(store, 1)
    others = [turn(store, number) for number in (2, 3, 4)]
    assert others == [first + 1] * 3
    assert store.durable == first - 1
    disk.land()
    assert store.durable == first
    assert turn_after_a_kill(store) == 1
    disk.land()
    assert store.durable == first + 1
    assert turn_after_a_kill(store) == 4
    assert disk.errors == [None, None]


def test_turn_without_changes_waits_for_the_turns_that_it_has_seen(slow: Slow) -> None:
    store, disk = slow
    store.begin()
    assert store.commit_soon() == store.durable
    first = turn(store, 1)
    store.begin()
    assert store.commit_soon() == first
    turn(store, 2)
    store.begin()
    assert store.commit_soon() == first + 1
    disk.land()
    disk.land()
    store.begin()
    assert store.commit_soon() == first + 1 == store.durable


def test_commit_waits_for_all_turns_before_it(slow: Slow) -> None:
    store, _ = slow
    for number in (1, 2, 3):
        turn(store, number)
    store.begin().put(b"\x10", b"4.")
    store.commit()
    assert turn_after_a_kill(store) == 4
    assert store.durable == store._number


def test_abort_keeps_the_record_on_its_way_and_drops_later_turns(slow: Slow) -> None:
    store, disk = slow
    turn(store, 1)
    turn(store, 2)
    store.begin().put(b"\x10", b"3.")
    store.abort()
    assert turn_of(store) == 1
    disk.report()
    assert turn(store, 4) == store.durable + 1
    disk.land()
    assert turn_after_a_kill(store) == 4


def test_failed_record_is_reported_and_nothing_later_is_durable(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, disk = slow
    first = turn(store, 1)
    turn(store, 2)

    def fail(fd: int) -> NoReturn:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", fail)
        disk.land()
    assert store.durable < first
    assert [str(error) for error in disk.errors] == [
        "the outcome of a turn is unknown: [Errno 5] Input/output error"
    ]
    with pytest.raises(StoreFailed, match="start the daemon again"):
        store.begin()


def test_turns_that_wait_are_limited_by_a_checkpoint(slow: Slow) -> None:
    store, _ = slow
    turn(store, 1)
    for number in range(2, 1_000):
        waits_for = turn(store, number, 4_000)
        assert store._waiting_bytes <= store._limit_bytes
        if waits_for == store.durable:
            break
    assert number > 3
    assert turn_after_a_kill(store) == number


def test_snapshot_has_the_turns_that_wait(slow: Slow) -> None:
    store, _ = slow
    turn(store, 1)
    turn(store, 2)
    store.pin().release()
    assert turn_after_a_kill(store) == 2


def test_clean_stop_stores_the_turns_that_wait(tmp_path: Path) -> None:
    store, _ = slow_store(tmp_path / "qm", MAP_BYTES, FILE_BYTES)
    for number in (1, 2, 3):
        turn(store, number)
    store.close()
    again, _ = slow_store(tmp_path / "qm", MAP_BYTES, FILE_BYTES)
    assert turn_of(again) == 3
    again.close()


def test_turns_go_on_only_if_flushes_are_slow(tmp_path: Path) -> None:
    store = JournalStore(tmp_path / "qm", MAP_BYTES, 1 << 20)
    disk = SlowDisk(store)
    turn(store, 0)
    for flush_s, goes_on in [(flush_time.FAST_S / 2, False), (flush_time.SLOW_S * 2, True)]:
        store._flush.seconds = flush_s
        assert (turn(store, 1) > store.durable) is goes_on
        disk.land()
    store.close()


def test_time_in_which_the_other_thread_waits_is_not_measured(tmp_path: Path) -> None:
    """Otherwise, a busy daemon would never find out that its disk is fast again."""
    store = JournalStore(tmp_path / "qm", MAP_BYTES, 1 << 20)
    disk = SlowDisk(store)
    turn(store, 0)
    store._flush.seconds = 0.0025
    for number in range(3):
        assert turn(store, number) > store.durable
        time.sleep(0.003)  # The thread of the turns is busy.
        disk.land()
    assert store._flush.seconds == 0.0025
    store.close()


def test_turns_wait_while_the_disk_hangs(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = slow
    monkeypatch.setattr(SlowStore, "_may_go_on", JournalStore._may_go_on)
    store._flush.seconds = 1.0
    assert turn(store, 1) > store.durable
    assert turn(store, 2) > store.durable
    store._flight_s -= recorded_store.FLIGHT_MAX_S
    assert turn(store, 3) == store.durable
    assert turn_after_a_kill(store) == 3


class Ahead(RuleBasedStateMachine):
    """Runs turns, lets records land, kills and restarts, and compares with the numbers of turns."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.store, self.disk = slow_store(Path(self.home.name) / "qm", MAP_BYTES, FILE_BYTES)
        self.last = 0  # the number of the last turn
        self.tickets = {0: turn(self.store, 0)}  # the numbers of records by those of turns

    def durable(self) -> int:
        """Returns the number of the last durable turn."""
        return max(x for x, ticket in self.tickets.items() if ticket <= self.store.durable)

    @rule(size=st.sampled_from([0, 500, 3 * BLOCK_BYTES, 9 * BLOCK_BYTES]))
    def turn(self, size: int) -> None:
        self.last += 1
        self.tickets[self.last] = turn(self.store, self.last, size)

    @rule()
    def land(self) -> None:
        self.disk.land()

    @rule()
    def settle(self) -> None:
        self.store.settle()
        assert self.durable() == self.last

    @rule()
    def report_late(self) -> None:
        self.disk.report()

    @rule()
    def abort(self) -> None:
        on_way = self.disk.flight is not None and not self.disk.flight.done()
        wanted = self.durable()
        if on_way:
            wanted = max(x for x, n in self.tickets.items() if n <= self.store.durable + 1)
        self.store.begin().put(b"\x10", b"lost.")
        self.store.abort()
        assert turn_of(self.store) == wanted
        self._begins_again(wanted)

    @rule()
    def kill(self) -> None:
        durable = self.durable()
        found = turn_after_a_kill(self.store)
        assert durable <= found <= self.last

    @rule()
    def close(self) -> None:
        self.store.close()
        self.store, self.disk = slow_store(self.store.directory, MAP_BYTES, FILE_BYTES)
        assert turn_of(self.store) == self.last
        self._begins_again(self.last)

    def _begins_again(self, number: int) -> None:
        self.last = number
        self.tickets = {number: self.store.durable}

    @invariant()
    def has_all_turns(self) -> None:
        value = self.store.begin().get(b"\x10")
        self.store.commit_soon()
        assert value is not None
        assert int(value.partition(b".")[0]) == self.last

    def teardown(self) -> None:
        self.store.close()
        self.home.cleanup()


Ahead.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAhead = Ahead.TestCase
