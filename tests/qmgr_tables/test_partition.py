"""Tests of partitions, which have about the requested size and share no message."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_tables.options import OptionInvalid, Options
from qmgr_tables.partition import Run, plan, state_of
from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import LaneRange, QueueInfo, StoredSnapshot

PATH = ("/snap",)
RANGES = st.builds(
    lambda lane, priority, messages, first, gaps: LaneRange(
        lane, priority, messages, first, first + messages + gaps - 1
    ),
    st.sampled_from([0, 2, 15]),
    st.integers(0, 9),
    st.integers(1, 500),
    st.integers(1, 2**60),
    st.integers(0, 1000),
)


def queue(number: int, *ranges: LaneRange) -> QueueInfo:
    return QueueInfo(f"Q{number}", number, "local", ranges)


def snapshot(*queues: QueueInfo, name: str = "QM1") -> StoredSnapshot:
    return StoredSnapshot(f"/{name}", name, name, 1, 4096, "", queues)


def one(messages: int, first: int = 1) -> LaneRange:
    return LaneRange(0, 4, messages, first, first + messages - 1)


def sizes(snapshots: list[StoredSnapshot], **options: Any) -> list[int]:
    """Returns the number of arrivals in each partition."""
    shares = plan(snapshots, Options(PATH, **options))
    return [sum(run.stop - run.first for run in share.runs) for share in shares]


@given(ranges=st.lists(RANGES, max_size=6), rows=st.integers(1, 300), minimum=st.integers(1, 20))
def test_every_arrival_is_in_one_run(ranges: list[LaneRange], rows: int, minimum: int) -> None:
    shot = snapshot(*(queue(number, found) for number, found in enumerate(ranges)))
    options = Options(PATH, rows_per_partition=rows, min_partitions=minimum)
    shares = plan([shot], options)
    for number, found in enumerate(ranges):
        runs = [run for share in shares for run in share.runs if run.queue_id == number]
        assert {(run.lane, run.priority) for run in runs} == {(found.lane, found.priority)}
        assert runs[0].first == found.first_arrival
        assert runs[-1].stop == found.last_arrival + 1
        assert all(before.stop == after.first for before, after in pairwise(runs))
    if ranges:
        messages = sum(found.messages for found in ranges)
        assert len(shares) >= min(minimum, messages)


def test_messages_of_groups_are_ready_ones() -> None:
    grouped = one(1000)._replace(lane=keys.LANE_GROUPED)
    assert sizes([snapshot(queue(1, grouped))], states=frozenset({"ready"})) == [1000]
    assert sizes([snapshot(queue(1, grouped))], states=frozenset({"delayed"})) == []
    assert state_of("local", keys.LANE_GROUPED) == "ready"


def test_long_queue_is_cut() -> None:
    assert sizes([snapshot(queue(1, one(1000)))], rows_per_partition=300) == [250] * 4


def test_short_queues_are_put_together() -> None:
    queues = [queue(number, one(10)) for number in range(100)]
    assert sizes([snapshot(*queues)], rows_per_partition=250) == [250] * 4


def test_snapshots_are_not_mixed() -> None:
    shots = [snapshot(queue(1, one(10)), name=name) for name in ("A", "B")]
    shares = plan(shots, Options(PATH))
    assert [share.snapshot.id for share in shares] == ["A", "B"]


def test_at_least_so_many_partitions_if_there_are_messages() -> None:
    assert len(sizes([snapshot(queue(1, one(1000)))], min_partitions=8)) == 8
    assert len(sizes([snapshot(queue(1, one(3)))], min_partitions=8)) == 3


def test_number_of_partitions_is_limited() -> None:
    shares = plan([snapshot(queue(1, one(10_000_000)))], Options(PATH, rows_per_partition=1))
    assert len(shares) == 100_000


def test_nothing_is_planned_for_an_empty_store() -> None:
    assert plan([], Options(PATH)) == []
    assert plan([snapshot(queue(1))], Options(PATH)) == []


def test_partition_carries_no_more_of_the_manifest_than_it_needs() -> None:
    (share,) = plan([snapshot(queue(1, one(5)))], Options(PATH))
    assert share.snapshot.queues == ()
    assert share.runs == (Run("Q1", 1, "local", 0, 4, 1, 6),)


def test_only_wanted_queues_are_planned() -> None:
    shot = snapshot(queue(1, one(5)), queue(2, one(5)), queue(12, one(5)))
    shares = plan([shot], Options(PATH, queues=frozenset(["Q2"])))
    assert [run.queue for share in shares for run in share.runs] == ["Q2"]
    shares = plan([shot], Options(PATH, queues_pattern="Q1.*"))
    assert [run.queue for share in shares for run in share.runs] == ["Q1", "Q12"]
    assert plan([shot], Options(PATH, queues_pattern="Z")) == []


def test_only_lanes_in_which_there_may_be_wanted_states_are_planned() -> None:
    lanes = [LaneRange(lane, 4, 5, 1, 5) for lane in (0, 1, 15)]
    shot = snapshot(queue(1, *lanes), QueueInfo("@NYC", 2, "transmission", (lanes[0],)))

    def planned(*states: str) -> list[tuple[str, int]]:
        shares = plan([shot], Options(PATH, states=frozenset(states)))
        return [(run.queue, run.lane) for share in shares for run in share.runs]

    assert planned("delayed") == [("Q1", 1)]
    assert planned("ready") == [("Q1", 0)]
    assert planned("ready", "transmission") == [("Q1", 0), ("@NYC", 0)]
    assert planned() == planned("damaged") == [("Q1", 0), ("Q1", 1), ("Q1", 15), ("@NYC", 0)]


def test_what_a_restart_lost_goes_with_the_run() -> None:
    lost = ((1, 4), (7, 9))
    shares = plan([snapshot(queue(1, one(5))._replace(lost=lost))], Options(PATH))
    assert shares[0].runs[0].lost == lost


def test_queue_that_no_snapshot_has_is_named() -> None:
    shot = snapshot(queue(1), queue(2))
    with pytest.raises(OptionInvalid, match="queue Q not found in /snap; did you mean Q2"):
        plan([shot], Options(PATH, queues=frozenset(["Q1", "Q"])))
    with pytest.raises(OptionInvalid, match="queue ZZZ not found in /snap; the queues are Q1, Q2"):
        plan([shot], Options(PATH, queues=frozenset(["ZZZ"])))
