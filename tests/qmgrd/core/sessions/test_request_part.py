"""Tests of the parts of long puts and settle requests."""

from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol.connection import JOINED_MAX_BYTES
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.context.audit_trail import PERIOD_MS
from qmgrd.core.sessions.request_part import (
    PUT_RECORDS,
    SETTLE_HANDLES,
    PartLimits,
    SettlePart,
    UnitPutPart,
    parts_of,
)
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Manager, record
from tests.qmgrd.core.recorded import audit_of
from tests.qmgrd.core.ticking import MS_NS, Ticking

HANDLES = [m.HANDLE.pack(4, arrival, 0) for arrival in range(5)]


def settle_parts(action: int) -> list[SettlePart]:
    whole = m.Settle(1, action, 1, b"".join(HANDLES))
    parts = [part for part, _ in parts_of(whole, 100, PartLimits(handles=2))]
    return [part for part in parts if isinstance(part, SettlePart)]


def test_pieces_have_all_handles_in_order_and_the_last_has_the_answer() -> None:
    parts = settle_parts(m.ACK)
    assert b"".join(part.settle.handles for part in parts) == b"".join(HANDLES)
    assert [(part.first_index, part.is_last) for part in parts] == [
        (0, False),
        (2, False),
        (4, True),
    ]


def test_pieces_of_what_is_unread_come_from_the_back() -> None:
    parts = settle_parts(m.UNREAD)
    assert [(part.first_index, part.is_last) for part in parts] == [
        (4, False),
        (2, False),
        (0, True),
    ]
    assert parts[0].settle.handles == HANDLES[4]


@given(
    st.lists(st.integers(0, 5).map(lambda x: bytes(x * JOINED_MAX_BYTES // 4)), max_size=12),
    st.integers(1, 5),
    st.integers(0, 99),
)
def test_parts_of_a_put_are_puts_with_the_same_records_and_ids(
    batch: list[bytes], records_max: int, more_bytes: int
) -> None:
    whole, size_bytes = m.Put(1, 7, 3, "Q", batch), sum(map(len, batch)) + more_bytes
    found = list(parts_of(whole, size_bytes, PartLimits(records=records_max)))
    assert sum(part_bytes for _, part_bytes in found) == size_bytes
    records: list[bytes] = []
    for part, _ in found:
        assert isinstance(part, m.Put)
        assert (part.stream, part.first_id, part.seen, part.queue) == (1, 7 + len(records), 3, "Q")
        assert len(part.records) <= records_max
        assert len(part.records) <= 1 or sum(map(len, part.records)) <= JOINED_MAX_BYTES
        records += part.records
    assert records == batch
    assert all(len(part.records) for part, _ in found if isinstance(part, m.Put)) or not batch


def test_parts_of_a_put_in_a_unit_have_the_indexes_of_their_records() -> None:
    whole = m.UnitPut(1, 2, "Q", [b"%d" % index for index in range(5)])
    found = [part for part, _ in parts_of(whole, 50, PartLimits(records=2))]
    assert found == [
        UnitPutPart(whole._replace(records=[b"0", b"1"]), 0, is_last=False),
        UnitPutPart(whole._replace(records=[b"2", b"3"]), 2, is_last=False),
        UnitPutPart(whole._replace(records=[b"4"]), 4, is_last=True),
    ]


def test_requests_up_to_the_limits_are_whole() -> None:
    limits = PartLimits()
    for whole in (
        m.Put(1, 1, 0, "Q", [b"x"] * PUT_RECORDS),
        m.UnitPut(1, 1, "Q", [b"x"] * PUT_RECORDS),
        m.UnitPut(1, 1, "Q", [bytes(2 * JOINED_MAX_BYTES)]),
        m.Settle(1, m.ACK, 1, bytes(m.HANDLE.size * SETTLE_HANDLES)),
        m.Status(1),
    ):
        assert list(parts_of(whole, 600_000, limits)) == [(whole, 600_000)]
    assert limits.short_bytes == PUT_RECORDS


def test_extras_of_a_link_keep_their_records() -> None:
    batch = [b"%d" % index for index in range(5)]
    extras = [[4, {"a": 4}], [0, {"a": 0}, "later"], [3, {"a": 3}], [5, {"a": 5}]]
    whole = m.Put(1, 10, 0, "Q", batch, extras)
    found = [part for part, _ in parts_of(whole, 50, PartLimits(records=2))]
    assert found == [
        m.Put(1, 10, 0, "Q", batch[:2], [[0, {"a": 0}, "later"]]),
        m.Put(1, 12, 0, "Q", batch[2:4], [[1, {"a": 3}]]),
        m.Put(1, 14, 0, "Q", batch[4:], [[0, {"a": 4}]]),
    ]


# -- in a manager


def slow() -> Manager:
    """Returns a manager in which each arrival uses up the time that a turn has for arrivals."""
    return Manager(clock_ns=Ticking(20 * MS_NS))


def test_long_put_is_stored_over_several_turns_in_order() -> None:
    manager = slow()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    producer = app.producer()
    batch = [record(b"%d" % index) for index in range(1_000)]
    batch[600] = b"rotten"
    app.send(m.Put(producer.stream, 1, 0, "Q", batch))
    answers: list[m.Committed] = []
    turns = 0
    while manager.turns.has_work:
        manager.turn()
        turns += 1
        answers += [x for x in app.hear() if type(x) is m.Committed]
    assert turns >= 4
    assert [x.commit_id for x in answers] == [256, 512, 768, 1_000]
    assert [row[:2] for x in answers for row in x.refused] == [
        [601, int(ErrorCode.RECORD_MALFORMED)]
    ]
    found = [int(x.body) for x in app.browse("Q")]
    assert found == [index for index in range(1_000) if index != 600]


class LongUnitPut:
    """A user puts 1,000 records in a unit, with invalid records at the indexes 0 and 300."""

    def __init__(self, parts: int) -> None:
        """Serves the first *parts* of the request, each in a turn."""
        self.manager = slow()
        self.guarded = Guarded(self.manager)
        self.guarded.owner.ask(m.QueueCreate, "Q")
        self.app = self.guarded.user("app", "put queue Q")
        self.producer = self.app.producer()
        self.app.ask(m.UnitBegin, 1)
        batch = [record(b"%d" % index) for index in range(1_000)]
        batch[0] = batch[300] = b"rotten"
        self.app.send(m.UnitPut(900, 1, "Q", batch))
        for _ in range(parts):
            self.manager.turn()
        assert self.app.hear() == []

    def answer(self) -> tuple[dict[int, int], list[list[int]]]:
        """Returns the code of each refused record, and the runs of stamped records."""
        refused, stamped = self.app.answer(900)
        return {index: code for index, code, _ in refused}, stamped

    def commit(self, puts: int) -> list[int]:
        """Commits a unit of *puts* messages; returns the bodies on the queue."""
        self.app.send(m.UnitCommit(self.producer.stream, 1, 0, 1, puts, 0))
        assert self.producer.answer() == []
        return [int(x.body) for x in self.guarded.owner.browse("Q")]


def test_long_put_in_a_unit_has_one_answer_after_its_last_part() -> None:
    put = LongUnitPut(3)
    refused, stamped = put.answer()
    assert refused == dict.fromkeys((0, 300), int(ErrorCode.RECORD_MALFORMED))
    assert [(first, count) for first, _, count in stamped] == [(1, 299), (301, 699)]
    assert put.app.hear() == []
    assert put.commit(998) == [index for index in range(1_000) if index not in (0, 300)]


def test_later_part_without_a_right_is_refused_and_the_unit_keeps_the_earlier_ones() -> None:
    put = LongUnitPut(1)
    put.guarded.revoke("app", "put queue Q")
    refused, _ = put.answer()
    kept = [index for index in range(1_000) if index not in refused]
    assert kept in (list(range(1, 256)), [*range(1, 300), *range(301, 512)])
    assert refused[0] == ErrorCode.RECORD_MALFORMED
    assert refused[999] == ErrorCode.QUEUE_UNKNOWN
    put.guarded.grant("app", "put queue Q")
    assert put.commit(len(kept)) == kept


def test_put_in_a_unit_whose_first_part_is_refused_has_an_error() -> None:
    manager = slow()
    guarded = Guarded(manager)
    guarded.owner.ask(m.QueueCreate, "Q")
    app = guarded.user("app", "get queue Q")
    app.ask(m.UnitBegin, 1)
    batch = [record(b"x")] * 1_000
    assert app.code_of(m.UnitPut, 1, "Q", batch) == ErrorCode.NOT_AUTHORIZED
    guarded.grant("app", "put queue Q")
    assert app.code_of(m.UnitPut, 2, "Q", batch) == ErrorCode.UNIT_UNKNOWN
    assert app.hear() == []
    refused, _ = app.ask(m.UnitPut, 1, "Q", batch)
    assert refused == []
    manager.turn(PERIOD_MS)  # After this time, refusals that were counted have a record.
    found = [x for x in audit_of(manager) if x["action"] == "UnitPut"]
    assert [(x["result"], x["count"]) for x in found] == [("NOT_AUTHORIZED", 1)]
