"""Tests of the window: each message arrives exactly once, despite cuts and crashes.

The conversations in tests/conversations/window/ show the same behaviour step by step.
"""

import random
from copy import deepcopy
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.errors import CommitOutOfRange, ErrorCode, WindowExceeded
from qmgr_protocol.window import Inbox, Outbox, ids_of, runs_of

EVENTS = ["put", "send", "deliver", "commit", "cut", "crash_sender", "crash_receiver"]
WEIGHTS = [25, 25, 25, 20, 2, 1, 1]


def test_gap_holds_the_commit_id_back() -> None:
    """B4: a gap holds the commit id back."""
    inbox = Inbox(window=10)
    assert [inbox.receive(i) for i in (1, 3, 4, 3)] == [True, True, True, False]
    assert inbox.commit_id == 1
    assert inbox.receive(2)
    assert inbox.commit_id == 4


def test_id_past_the_window_is_refused() -> None:
    with pytest.raises(WindowExceeded, match="id 3 exceeds commit id 0") as caught:
        Inbox(window=2).receive(3)
    assert caught.value.code == ErrorCode.WINDOW_EXCEEDED


def test_id_that_is_held_is_known_wherever_the_window_stands() -> None:
    inbox = Inbox(window=2, commit_id=9, ahead={11})
    assert [inbox.receive(i) for i in (1, 9, 11)] == [False, False, False]


def test_commit_of_an_id_never_assigned_is_the_peers_error() -> None:
    """B28: a commit of an id that was never assigned is an error of the peer."""
    outbox = Outbox(window=8, next_id=7)
    with pytest.raises(CommitOutOfRange, match="commit id 7") as caught:
        outbox.commit(7)
    assert caught.value.code == ErrorCode.COMMIT_OUT_OF_RANGE
    assert outbox == Outbox(window=8, next_id=7)


def test_commit_that_comes_late_deletes_nothing() -> None:
    """B15: a late commit deletes nothing."""
    outbox = Outbox(window=8, commit_id=5, next_id=9)
    assert not outbox.commit(3)
    assert outbox.commit_id == 5


def test_sender_restarted_behind_the_receiver_resumes() -> None:
    """B13: a sender that restarted behind the receiver resumes."""
    outbox = Outbox(window=100, commit_id=100, next_id=301)
    assert outbox.resume(250) == range(101, 251)
    assert outbox.take(1000) == range(251, 301)


def test_sender_stops_at_its_window() -> None:
    """B26: a sender stops at the end of its window."""
    outbox = Outbox(window=3)
    assert outbox.assign(9) == 1
    assert outbox.take(2) == range(1, 3)
    assert outbox.take(2) == range(3, 4)
    assert not outbox.take(2)


def test_smaller_window_after_a_reconnect_sends_nothing_until_it_fits() -> None:
    outbox = Outbox(window=8, next_id=20)
    outbox.take(8)
    outbox.window = 2
    assert not outbox.take(8)
    outbox.resume(0)
    assert outbox.take(8) == range(1, 3)


def test_ids_never_come_round_again() -> None:
    """B23: ids are never used again."""
    near = 2**63 - 5
    outbox = Outbox(window=8, commit_id=near, next_id=near + 1)
    inbox = Inbox(window=8, commit_id=near)
    outbox.assign(3)
    for seq_id in reversed(outbox.take(8)):
        assert inbox.receive(seq_id)
    assert list(outbox.commit(inbox.commit_id)) == [near + 1, near + 2, near + 3]


class Stream:
    """Both ends of a stream, the other data on each disk, and the wire between them."""

    def __init__(self, total: int, seed: int) -> None:
        self.total = total
        self.rng = random.Random(seed)
        self.outbox, self.inbox = Outbox(window=8), Inbox(window=8)
        self.held: set[int] = set()
        self.stored: list[int] = []
        self.wire: list[int] = []
        self.back: list[int] = []

    def put(self) -> None:
        if self.outbox.next_id <= self.total:
            self.held.add(self.outbox.assign())

    def send(self) -> None:
        self.wire += self.outbox.take(self.rng.randint(1, 5))

    def deliver(self) -> None:
        if self.wire:
            # With several paths, any order is possible.
            seq_id = self.wire.pop(self.rng.randrange(len(self.wire)))
            if self.inbox.receive(seq_id):
                self.stored.append(seq_id)
            self.back.append(self.inbox.commit_id)

    def commit(self) -> None:
        if self.back:
            done = self.outbox.commit(self.back.pop(0))
            assert set(done) <= set(self.stored)
            self.held -= set(done)

    def cut(self) -> None:
        self.wire, self.back = [], []
        self.held -= set(self.outbox.resume(self.inbox.commit_id))

    def crash_sender(self) -> None:
        self.outbox = Outbox(self.outbox.window, self.outbox.commit_id, self.outbox.next_id)
        self.cut()

    def crash_receiver(self) -> None:
        self.inbox = deepcopy(self.inbox)
        self.cut()

    def check(self) -> None:
        outbox, inbox = self.outbox, self.inbox
        assert outbox.commit_id <= outbox.sent_id < outbox.next_id
        assert outbox.sent_id <= outbox.commit_id + outbox.window
        assert self.held == set(range(outbox.commit_id + 1, outbox.next_id))
        assert all(inbox.commit_id < i <= inbox.commit_id + inbox.window for i in inbox.ahead)


@pytest.mark.parametrize("seed", range(300))
def test_every_message_arrives_once_over_cuts_and_crashes(seed: int) -> None:
    """B3, B16, B17: every message arrives exactly once."""
    stream = Stream(100, seed)
    for _ in range(100_000):
        getattr(stream, stream.rng.choices(EVENTS, WEIGHTS)[0])()
        stream.check()
        if stream.outbox.commit_id == stream.total:
            break
    assert sorted(stream.stored) == list(range(1, stream.total + 1))


@pytest.mark.parametrize("seed", range(100))
def test_every_message_of_a_producer_arrives_once_though_frames_are_sent_again(seed: int) -> None:
    """The receiver handles frames as the daemon does: each as a whole, even if ids overlap."""
    rng = random.Random(seed)
    total, window = 200, 16
    outbox, inbox = Outbox(window), Inbox(window)
    stored: list[int] = []
    wire: list[tuple[int, int]] = []
    outbox.assign(total)
    for _ in range(100_000):
        ids = outbox.take(rng.randint(1, 9))
        if ids:
            wire.append((ids.start, len(ids)))
        if wire and rng.random() < 0.7:
            first_id, count = wire.pop(0)
            inbox.check(first_id + count - 1)
            missing = inbox.missing(first_id, count)
            if missing:
                inbox.receive_all(missing)
            stored += missing
        if rng.random() < 0.3:
            outbox.commit(inbox.commit_id)
        if rng.random() < 0.05:  # The reply is lost, so uncommitted ids are sent again.
            wire = []
            outbox.sent_id = outbox.commit_id
        if outbox.commit_id == total:
            break
    assert stored == list(range(1, total + 1))


@given(st.integers(0, 20), st.sets(st.integers(2, 8)), st.integers(1, 24), st.integers(0, 8))
def test_batch_is_taken_as_its_ids_one_by_one(
    commit_id: int, ahead: set[int], first_id: int, count: int
) -> None:
    batch = Inbox(8, commit_id, {commit_id + i for i in ahead})
    single = deepcopy(batch)
    if first_id + count - 1 > commit_id + 8:
        with pytest.raises(WindowExceeded):
            batch.check(first_id + count - 1)
        return
    batch.check(first_id + count - 1)
    missing = list(batch.missing(first_id, count))
    if missing:
        batch.receive_all(missing)
    assert missing == [i for i in range(first_id, first_id + count) if single.receive(i)]
    assert batch == single


@given(st.integers(1, 9), st.lists(st.integers(1, 40)))
def test_receiver_remembers_no_more_than_its_window(window: int, ids: list[int]) -> None:
    inbox = Inbox(window)
    for seq_id in ids:
        before = deepcopy(inbox)
        try:
            new = inbox.receive(seq_id)
        except WindowExceeded:
            assert inbox == before
        else:
            assert new is not before.holds(seq_id)
            assert inbox.holds(seq_id)
        assert len(inbox.ahead) < window or window == 1
        assert inbox.commit_id >= before.commit_id
        assert inbox.commit_id + 1 not in inbox.ahead


@given(st.sets(st.integers(1, 2**63 - 1)) | st.sets(st.integers(1, 40)))
def test_runs_are_the_ids_in_order(ids: set[int]) -> None:
    runs = runs_of(ids)
    assert ids_of(runs) == ids
    assert all(sum(run) < later[0] for run, later in pairwise(runs))
    assert all(count > 0 for _, count in runs)


def test_long_runs_are_short() -> None:
    assert runs_of([5, *range(9, 10_000), 4]) == [[4, 2], [9, 9_991]]
