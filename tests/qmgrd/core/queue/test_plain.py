"""Tests that the loop for plain records with UIDs does the same as the step-by-step path."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Fields, Uid
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.queue import plain
from qmgrd.core.queue import put as puts
from tests.qmgrd.core.any_record import any_record, flipped
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.past import history_of
from tests.qmgrd.core.queue.test_put import NOW, outcome

ROOMY = Bounds(10**6, 10**9, 1_000, 100)


def with_uid(origin: str, timestamp: int, **fields: Any) -> bytes:
    return records.encode(Fields(b"x", uid=Uid(origin, timestamp), **fields))


@st.composite
def of_origins(draw: st.DrawFn) -> list[bytes]:
    """Records with UIDs of few origins, mostly ascending, some of them damaged."""
    batch = []
    timestamp = draw(st.integers(1, 10))
    for _ in range(draw(st.integers(0, 12))):
        timestamp = max(0, timestamp + draw(st.sampled_from([1, 1, 1, 2, 0, -3])))
        made = with_uid(
            draw(st.sampled_from(["B", "B", "B", "LONGER", "QM1"])),
            timestamp,
            priority=draw(st.sampled_from([4, 4, 9])),
            correlation_id=draw(st.sampled_from([b"", b"", b"c"])),
        )
        batch.append(flipped(made, draw(st.integers(0, 80))) if draw(st.booleans()) else made)
    return batch


@given(
    st.lists(st.one_of(of_origins(), st.lists(any_record, max_size=8)), max_size=4),
    st.sampled_from(["", "F"]),
    st.sampled_from([(10**6, 10**9), (3, 10**9), (10**6, 1_000)]),
)
def test_records_with_uids_are_put_as_all_others(
    batches: list[list[bytes]], target: str, limits: tuple[int, int]
) -> None:
    bounds = Bounds(*limits, 1_000, 100)
    fast = outcome(batches, target, bounds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_PLAIN_MAX_BYTES", 0)
        slow = outcome(batches, target, bounds)
    assert fast == slow


def test_plain_records_with_uids_take_the_tight_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the test above would compare the step-by-step path with itself."""
    monkeypatch.setattr(puts, "prepare", None)
    batches = [
        [with_uid("B", 5), with_uid("B", 9), with_uid("C", 1, correlation_id=b"c")],
        [with_uid("B", 7), with_uid("B", 8), with_uid("B", 10)],
    ]
    said, _, counters, last_us = outcome(batches, "", ROOMY)
    assert [(refused, stamped) for refused, stamped, _ in said] == [([], []), ([], [])]
    assert (counters.depth, counters.fast, counters.slow) == (6, 4, 2)
    assert last_us == NOW.wall_us - 1


def test_duplicate_is_refused_between_new_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puts, "prepare", None)
    batches = [[with_uid("B", 6)], [with_uid("B", 5), with_uid("B", 6), with_uid("B", 7)]]
    said, _, counters, _ = outcome(batches, "", ROOMY)
    assert said[1][0] == [(1, ErrorCode.DUPLICATE_MESSAGE, "message B.6 already exists on queue Q")]
    assert (counters.depth, counters.duplicates) == (3, 1)


def test_consumer_that_waits_for_a_uid_receives_it() -> None:
    manager = Manager()
    app = manager.connect("app")
    app.ask(m.QueueCreate, "Q")
    seeker = manager.connect("seeker")
    uid = records.encode_uid(Uid("B", 6))
    seeker.say(m.Get(1, "Q", wait_ms=60_000, lease_ms=60_000, uid=uid))
    app.put_records("Q", *(record(b"x", uid=Uid("B", timestamp)) for timestamp in (5, 6, 7)))
    assert [type(answer) for answer in seeker.hear()] == [m.Deliver]


def test_history_has_the_uid_of_each_message(app: Client) -> None:
    app.ask(m.QueueCreate, "H", {"accounting": "on"})
    uids = [Uid("B", timestamp) for timestamp in (5, 9, 12)]
    app.put_records("H", *(record(b"x", uid=uid) for uid in uids))
    assert [put.message_id for put in history_of(app.manager)] == list(map(str, uids))


def test_each_message_has_a_row_in_the_uid_index() -> None:
    _, rows, _, _ = outcome([[with_uid("B", 5), with_uid("B", 6)]], "", ROOMY)
    assert sum(key[:1] == keys.SPACE_UID for key in rows) == 2
