"""The store whose log is on a server."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store import logged_store, recorded_store
from qmgrd.store.checkpoint import apply, content_of
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import CopyFailed, LmdbStore
from qmgrd.store.log import Fenced, LogForeign, Record
from qmgrd.store.logged_store import LoggedStore
from tests.fake_log import LOG_ID, FakeLog, FakeServer

MAP_BYTES = 32 << 20


def opened(directory: Path, log_id: bytes = LOG_ID) -> LoggedStore:
    return LoggedStore(directory, MAP_BYTES, log_id)


def rows(store: LmdbStore) -> dict[bytes, bytes]:
    """Returns the rows of the store, apart from the checkpoint."""
    if isinstance(store, LoggedStore) and not store.is_active:
        store.checkpoint()
    found = dict(store.begin().scan(b"\x10", b"\x11"))
    if isinstance(store, LoggedStore) and store.is_active:
        store.commit_soon()
    else:
        store.abort()
    return found


def turn(store: LoggedStore, **values: bytes) -> int:
    """Runs a turn, and returns the number of its record."""
    tx = store.begin()
    for key, value in values.items():
        tx.put(b"\x10" + key.encode(), value)
    return store.commit_soon()


class Shell:
    """The part of the daemon that an active store uses."""

    def __init__(self, store: LoggedStore) -> None:
        self.durable: list[StoreFailed | None] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        store.go_ahead(
            lambda call: call(),
            lambda delay_s, call: self.later.append((delay_s, call)),
            self.durable.append,
        )

    def ring(self) -> None:
        """Makes all delayed calls."""
        later, self.later[:] = list(self.later), []
        for _, call in later:
            call()


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LoggedStore]:
    store = opened(tmp_path / "qm")
    yield store
    store.resign()
    store.close()


def test_nothing_is_durable_before_the_log_has_it(store: LoggedStore, server: FakeServer) -> None:
    log, shell = server.claim(store), Shell(store)
    assert turn(store, a=b"1") == 1
    assert turn(store, b=b"2") == 2
    assert store.durable == 0
    log.answer()
    assert store.durable == 1
    assert shell.durable == [None]
    shell.ring()
    log.answer()
    assert store.durable == 2
    assert [record.number for record in server.records] == [1, 2]


def test_standby_has_the_rows_of_the_active_member(
    tmp_path: Path, store: LoggedStore, server: FakeServer
) -> None:
    server.claim(store)
    tx = store.begin()
    tx.put_all([(b"\x10a", b"1"), (b"\x10b", b"2")])
    tx.put(b"\x10c", b"3")
    store.commit()
    tx = store.begin()
    tx.delete(b"\x10b")
    store.commit()
    other = opened(tmp_path / "other")
    server.follow(other)
    assert rows(other) == {b"\x10a": b"1", b"\x10c": b"3"} == rows(store)
    assert other.position == store.position == (2, 1)
    other.close()
    other = opened(tmp_path / "other")
    assert other.position == (2, 1)
    assert rows(other) == rows(store)
    other.close()


def test_fenced_member_discards_what_the_log_does_not_have(
    tmp_path: Path, store: LoggedStore, server: FakeServer
) -> None:
    log, shell = server.claim(store), Shell(store)
    turn(store, a=b"1")
    log.answer()
    turn(store, a=b"lost")
    turn(store, b=b"lost, too")
    other = opened(tmp_path / "other")
    server.claim(other)
    turn(other, c=b"new")
    other.settle()
    log.answer()
    (error,) = shell.durable[1:]
    assert isinstance(error, Fenced)
    assert store.durable == 1
    with pytest.raises(StoreFailed, match="failed before"):
        store.begin()
    store.resign()
    server.follow(store)
    assert rows(store) == {b"\x10a": b"1", b"\x10c": b"new"}
    other.resign()
    other.close()


def test_fenced_member_is_told_if_it_waits(
    tmp_path: Path, store: LoggedStore, server: FakeServer
) -> None:
    server.claim(store)
    other = opened(tmp_path / "other")
    server.claim(other)
    tx = store.begin()
    tx.put(b"\x10a", b"1")
    with pytest.raises(Fenced):
        store.commit()
    assert server.records == []
    other.close()


def test_abort_keeps_the_record_on_its_way(store: LoggedStore, server: FakeServer) -> None:
    log, _ = server.claim(store), Shell(store)
    turn(store, a=b"1")
    turn(store, b=b"waits")
    store.begin().put(b"\x10c", b"open")
    store.abort()
    assert rows(store) == {b"\x10a": b"1"}
    log.answer()
    turn(store, d=b"4")
    log.answer()
    assert rows(store) == {b"\x10a": b"1", b"\x10d": b"4"}


def test_checkpoint_waits_until_the_log_has_all_turns(
    store: LoggedStore, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, shell = server.claim(store), Shell(store)
    turn(store, a=b"1")
    turn(store, b=b"2")
    monkeypatch.setattr(LoggedStore, "_is_due", lambda self: True)
    assert not store.may_begin()
    log.answer()  # The next record does not gather, because a checkpoint is due.
    assert log.flight is not None
    assert store._stored == 0
    assert not store.may_begin()
    log.answer()
    assert store._stored == 2
    assert store.may_begin()
    assert shell.durable == [None, None]


def test_turns_wait_for_a_log_that_does_not_answer(
    store: LoggedStore, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, shell = server.claim(store), Shell(store)
    turn(store, a=b"1")
    assert store.may_begin()
    store._sent_s -= recorded_store.FLIGHT_MAX_S
    assert not store.may_begin()
    log.answer()
    assert shell.durable == [None]
    monkeypatch.setattr(LoggedStore, "_is_due", lambda self: False)
    turn(store, a=bytes(logged_store.WAITING_MAX_BYTES))
    assert store.may_begin()  # That is on its way.
    turn(store, a=bytes(logged_store.WAITING_MAX_BYTES))
    assert not store.may_begin()


def test_turn_without_changes_waits_if_another_member_may_be_active(
    store: LoggedStore, server: FakeServer
) -> None:
    """A member that was paused may still have the messages that another one has delivered."""
    log, shell = server.claim(store), Shell(store)
    assert turn(store) == 1  # Nothing was proven yet.
    assert log.flight == (1, 1, content_of([]))
    assert turn(store) == 1
    log.answer()
    assert (store.durable, shell.durable) == (1, [None])
    assert turn(store) == 1  # It leaves at once.
    assert log.flight is None
    store._proven_s -= logged_store.FRESH_S
    assert turn(store) == 2
    server.epoch += 1
    log.answer()
    assert store.durable == 1
    assert isinstance(shell.durable[-1], Fenced)


def test_outcomes_of_a_late_record_wait_for_the_next_one(
    store: LoggedStore, server: FakeServer
) -> None:
    """The member may have been paused after the log accepted the record."""
    log, shell = server.claim(store), Shell(store)
    assert turn(store, a=b"1") == 1
    log.arrive()
    store._sent_s -= 60
    server.epoch += 1  # Another member became active meanwhile.
    log.answer()
    assert (store.durable, shell.durable) == (0, [])
    log.answer()
    assert store.durable == 0
    assert isinstance(shell.durable[0], Fenced)


def test_outcomes_leave_if_the_server_is_always_slow(
    store: LoggedStore, server: FakeServer
) -> None:
    log, _ = server.claim(store), Shell(store)
    assert turn(store, a=b"1") == 1
    answers = 0
    while not store.durable:
        store._sent_s -= 1
        log.answer()
        answers += 1
    assert answers == logged_store.PROOFS_MAX + 1
    assert store.durable == answers


def test_base_that_meets_the_fence_reports_it_and_commits_nothing(
    store: LoggedStore, server: FakeServer
) -> None:
    """Otherwise, a record that the log does not have would become a base."""
    server.claim(store)
    shell = Shell(store)
    turn(store, a=b"1")
    store.settle()
    turn(store, a=b"refused")
    server.epoch += 1
    for _ in range(2):
        with pytest.raises(CopyFailed):
            store.pin_base(lambda: None)
        assert isinstance(shell.durable[0], Fenced)
    assert store._stored <= 1
    store.resign()
    server.follow(store)
    assert rows(store) == {b"\x10a": b"1"}


def test_beats_of_an_earlier_time_as_active_member_end(
    store: LoggedStore, server: FakeServer
) -> None:
    server.claim(store)
    former = Shell(store)
    store.resign()
    log, shell = server.claim(store), Shell(store)
    store._landed_s -= 60
    former.ring()
    assert (former.later, log.flight) == ([], None)
    shell.ring()
    assert log.flight is not None


def test_idle_member_appends_empty_records(store: LoggedStore, server: FakeServer) -> None:
    log, shell = server.claim(store, silence_max_s=8.0), Shell(store)
    ((delay_s, _),) = shell.later
    assert delay_s == 2.0
    shell.ring()
    assert log.flight is None  # A record landed a moment ago.
    store._landed_s -= 2
    shell.ring()
    log.answer()
    assert server.records == [(1, 1, content_of([]))]
    turn(store, a=b"1")
    store._landed_s -= 2
    shell.ring()  # A record is on its way.
    log.answer()
    assert len(server.records) == 2
    store.resign()
    shell.ring()
    assert shell.later == []


@pytest.mark.parametrize("is_base", [False, True])
def test_copy_of_a_pinned_turn(
    tmp_path: Path, store: LoggedStore, server: FakeServer, is_base: bool
) -> None:
    """A base continues the log. A snapshot needs none, so a local journal can follow it."""
    server.claim(store)
    shell = Shell(store)
    turn(store, a=b"1")
    turn(store, b=b"2")
    pin = store.pin_base(lambda: None) if is_base else store.pin()
    assert store.durable == 2
    assert shell.durable == ([None] if is_base else [])
    (tmp_path / "copy/store").mkdir(parents=True)
    with open(tmp_path / "copy/store/data.mdb", "wb") as file:
        pin.copy_to(file.fileno())
    pin.release()
    turn(store, c=b"3")
    store.settle()
    copy: LmdbStore
    if is_base:
        copy = opened(tmp_path / "copy")
        assert copy.position == (2, 1)
        server.follow(copy)
        assert rows(copy) == rows(store)
    else:
        copy = JournalStore(tmp_path / "copy", MAP_BYTES, 1 << 20)
        assert rows(copy) == {b"\x10a": b"1", b"\x10b": b"2"}
        copy.begin()
        copy.commit()
    copy.close()


def test_no_turn_is_pinned_while_the_log_does_not_answer(
    store: LoggedStore, server: FakeServer
) -> None:
    server.claim(store)
    turn(store, a=b"1")
    store._sent_s -= recorded_store.FLIGHT_MAX_S
    with pytest.raises(CopyFailed, match="does not answer"):
        store.pin()


def test_two_copies_at_once_are_refused(store: LoggedStore, server: FakeServer) -> None:
    """A snapshot may be wanted while a base is being made, and the reverse."""
    server.claim(store)
    turn(store, a=b"1")
    pin = store.pin_base(lambda: None)
    with pytest.raises(CopyFailed, match="another copy"):
        store.pin()
    with pytest.raises(CopyFailed, match="another copy"):
        store.pin_base(lambda: None)
    pin.release()
    store.pin().release()


def test_store_of_another_log_is_refused(tmp_path: Path, server: FakeServer) -> None:
    local = JournalStore(tmp_path / "local", MAP_BYTES, 1 << 20)
    local.begin().put(b"\x10a", b"1")
    local.commit()
    local.close()
    with pytest.raises(LogForeign, match="qmctl journal move"):
        opened(tmp_path / "local")
    store = opened(tmp_path / "qm")
    server.claim(store)
    store.begin().put(b"\x10a", b"1")
    store.commit()
    store.close()
    with pytest.raises(LogForeign):
        opened(tmp_path / "qm", b"other---")
    opened(tmp_path / "qm").close()


def test_standby_whose_map_is_full_fails_with_words(tmp_path: Path, server: FakeServer) -> None:
    store = LoggedStore(tmp_path / "qm", 1 << 20, LOG_ID)
    content = content_of([b"\x10a", bytes(2 << 20)])
    with pytest.raises(StoreFailed, match=r"raise store\.map_bytes"):
        store.follow(Record(1, 1, content))
    store.close()


def test_used_bytes_are_those_of_the_last_checkpoint(store: LoggedStore) -> None:
    before = store.used_bytes
    store.follow(Record(1, 1, content_of([b"\x10a", bytes(100_000)])))
    assert store.used_bytes == before
    store.checkpoint()
    assert store.used_bytes >= before + 100_000
    assert store.is_active is False


class Stopped:
    """A clock that only moves during a checkpoint, which takes as long as wanted."""

    def monotonic(self) -> float:
        return 0.0

    def perf_counter(self) -> float:
        self.now_s = getattr(self, "now_s", 0.0) + recorded_store.CHECKPOINT_S
        return self.now_s


class Members(RuleBasedStateMachine):
    """Two members of one log: turns, lost answers, takeovers, kills, and the rows that must stay.

    A turn whose record has landed is acknowledged: the rows of every later active member have it.
    """

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.home = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        # The real clock would change the sizes of checkpoints, so runs could not be repeated.
        self.clock = patch.object(logged_store, "time", Stopped())
        self.clock.start()
        self.server = FakeServer()
        self.stores = [opened(self.home / "0"), opened(self.home / "1")]
        self.logs: list[FakeLog | None] = [None, None]
        self.shells: list[Shell | None] = [None, None]
        self.count = 0
        self.sent: list[tuple[int, int, int]] = []  # member, record and number of each turn
        self.acknowledged: set[int] = set()
        self._lead(0)

    def _lead(self, member: int) -> None:
        self.logs[member] = self.server.claim(self.stores[member])
        self.shells[member] = Shell(self.stores[member])

    def _active(self) -> list[int]:
        return [member for member in (0, 1) if self.logs[member] is not None]

    @precondition(lambda self: self._active())
    @rule(which=st.integers(0, 1), size=st.sampled_from([0, 100, 300_000]))
    def turn(self, which: int, size: int) -> None:
        active = self._active()
        member = active[which % len(active)]
        store = self.stores[member]
        if store._is_failed or not store.may_begin():
            return
        self.count += 1
        key = f"{self.count}"
        self.sent.append((member, turn(store, **{key: bytes(size)}), self.count))

    @rule(which=st.integers(0, 1), is_lost=st.booleans())
    def answer(self, which: int, is_lost: bool) -> None:
        log = self.logs[which]
        if log is None:
            return
        if is_lost:
            log.arrive()
            return
        log.answer()
        self._acknowledge(which)
        if self.stores[which]._is_failed:
            self._resign(which)

    @rule(which=st.integers(0, 1))
    def ring(self, which: int) -> None:
        shell = self.shells[which]
        if shell is not None:
            shell.ring()

    @rule(which=st.integers(0, 1))
    def abort(self, which: int) -> None:
        store = self.stores[which]
        if self.logs[which] is None or store._is_failed:
            return
        store.begin().put(b"\x10x", b"aborted")
        store.abort()
        self.sent = [x for x in self.sent if x[0] != which or x[1] <= store.position.number]

    @rule(which=st.integers(0, 1))
    def take_over(self, which: int) -> None:
        if self.logs[which] is None:
            self._lead(which)

    @rule(which=st.integers(0, 1))
    def kill(self, which: int) -> None:
        store = self.stores[which]
        LmdbStore.close(store)  # without the last checkpoint
        self._forget(which)
        self.stores[which] = opened(self.home / str(which))
        assert self.stores[which].position.number <= len(self.server.records)

    @rule(which=st.integers(0, 1))
    def lose_the_disk(self, which: int) -> None:
        self.stores[which].close()
        self._forget(which)
        shutil.rmtree(self.home / str(which))
        self.stores[which] = opened(self.home / str(which))

    @rule(which=st.integers(0, 1))
    def follow(self, which: int) -> None:
        if self.logs[which] is None:
            self.server.follow(self.stores[which])
            self.stores[which].checkpoint()

    def _acknowledge(self, member: int) -> None:
        durable = self.stores[member].durable
        done = {count for who, record, count in self.sent if who == member and record <= durable}
        self.acknowledged |= done
        self.sent = [x for x in self.sent if x[2] not in done]

    def _resign(self, member: int) -> None:
        self.stores[member].resign()
        self._forget(member)

    def _forget(self, member: int) -> None:
        self.logs[member] = self.shells[member] = None
        self.sent = [x for x in self.sent if x[0] != member]

    @invariant()
    def log_has_what_was_acknowledged(self) -> None:
        found: dict[bytes, bytes] = {}
        for record in self.server.records:
            apply(record.content, found.__setitem__, found.__delitem__)
        assert self.acknowledged <= {int(key[1:]) for key in found}
        assert b"\x10x" not in found
        epochs = [record.epoch for record in self.server.records]
        assert epochs == sorted(epochs)

    @invariant()
    def lmdb_is_never_ahead_of_the_log(self) -> None:
        for store in self.stores:
            assert store._stored <= len(self.server.records), "the log lacks what a store has"

    def teardown(self) -> None:
        for member, store in enumerate(self.stores):
            if self.logs[member] is not None:
                store.resign()
            self.server.follow(store)
        assert rows(self.stores[0]) == rows(self.stores[1]), "the stores differ"
        for store in self.stores:
            store.close()
        shutil.rmtree(self.home)
        self.clock.stop()


Members.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestMembers = Members.TestCase


def test_model_finds_a_store_that_is_ahead_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def checkpoint_now(self: LoggedStore) -> None:
        durable, self.durable = self.durable, self._number
        waiting, self._waiting = self._waiting, []
        self._checkpoint(is_last=False)
        self.durable, self._waiting = durable, waiting

    end_turn = LoggedStore._end_turn

    def end_turn_ahead(self: LoggedStore, *, waits: bool) -> None:
        end_turn(self, waits=waits)
        if self._is_flying:
            checkpoint_now(self)

    monkeypatch.setattr(LoggedStore, "_end_turn", end_turn_ahead)
    quick = settings(
        max_examples=300, deadline=None, database=None, derandomize=True, phases=[Phase.generate]
    )
    with pytest.raises(AssertionError, match=r"the log lacks what a store has|the stores differ"):
        run_state_machine_as_test(Members, settings=quick)
