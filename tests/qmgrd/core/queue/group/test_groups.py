"""Tests of the groups of a queue: valid puts, turns, and retention."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown
from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.queue.group import groups
from qmgrd.core.queue.group.admission import NO_GROUP
from qmgrd.core.queue.group.groups import Groups
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.row import GroupRow
from tests.group_player import group_id, member
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Manager
from tests.qmgrd.core.jobs.test_due_work import events, run_due_work, scheduled
from tests.qmgrd.core.unit_of_work import UnitOfWork, bodies, note_of

A, B = group_id("A"), group_id("B")
NOW = Now(1_000, 1_700_000_000_000_000)
BOUNDS = Bounds(100, 10**6, 1_000, 100)
TAKEN, ENDED = ErrorCode.GROUP_NUMBER_TAKEN, ErrorCode.GROUP_ENDED


class Table:
    """The groups of a queue and their messages, set directly. Arrivals are 10 plus the number."""

    def __init__(self) -> None:
        self.tx = MemoryStore()
        self.groups = Groups(1, "Q", Schedule())

    def position(self, number: int, lane: int = keys.LANE_GROUPED) -> bytes:
        return keys.POSITION.pack(lane, 5, 10 + number)

    def enter(self, *numbers: int, last: int = 0, lane: int = keys.LANE_GROUPED) -> None:
        for number in numbers:
            self.groups.enter(
                self.tx,
                Member(A, number),
                self.position(number, lane),
                is_last=number == last,
                put_us=7,
            )
        self.refresh()

    def leave(self, *numbers: int, for_good: bool = True, lane: int = keys.LANE_GROUPED) -> None:
        for number in numbers:
            at = self.position(number, lane)
            assert self.groups.leave(self.tx, Member(A, number), at, for_good=for_good)
        self.refresh()

    def refresh(self, bounds: Bounds = BOUNDS) -> list[bytes]:
        return self.groups.refresh(self.tx, NOW, bounds)[0]

    def row(self) -> GroupRow | None:
        return self.groups.row(self.tx, A)

    def known(self) -> GroupRow:
        found = self.row()
        assert found is not None
        return found

    def refusal(self, number: int, *, is_last: bool = False) -> tuple[ErrorCode, str]:
        with pytest.raises(RequestError) as refused:
            self.groups.check(self.tx, Member(A, number), is_last=is_last)
        return ErrorCode(refused.value.code), str(refused.value)

    def check(self, number: int, *, is_last: bool = False) -> None:
        self.groups.check(self.tx, Member(A, number), is_last=is_last)

    def chain(self) -> dict[bytes, bytes]:
        prefix = keys.of_queue(keys.SPACE_CHAIN, 1)
        return {key[len(prefix) :]: x for key, x in self.tx.rows.items() if key.startswith(prefix)}


@pytest.fixture
def table() -> Table:
    return Table()


# -- valid puts


@pytest.mark.parametrize("number", [0, GROUP_NUMBER_MAX + 1, 2**32 - 1])
def test_number_must_be_in_range(table: Table, number: int) -> None:
    code, text = table.refusal(number)
    assert code == ErrorCode.GROUP_NUMBER_INVALID
    assert str(number) in text
    table.check(GROUP_NUMBER_MAX)


def test_group_id_of_zeros_is_invalid(table: Table) -> None:
    with pytest.raises(RequestError) as refused:
        table.groups.check(table.tx, Member(NO_GROUP, 1), is_last=False)
    assert refused.value.code == ErrorCode.VALUE_INVALID


def test_number_of_a_stored_member_is_taken(table: Table) -> None:
    table.enter(2)
    table.enter(4, lane=keys.LANE_DELAYED)
    for number in (2, 4):
        code, text = table.refusal(number)
        assert code == TAKEN
        assert f"number {number} of group A on queue Q" in text
    table.check(1)
    table.check(3)


def test_consumed_number_is_taken_but_expired_one_is_not(table: Table) -> None:
    """E35: a consumed number remains in use, but an expired number does not."""
    table.enter(1, 2, 3, 4)
    table.leave(1, 3)
    table.leave(2, for_good=False)
    assert table.refusal(1)[0] == table.refusal(3)[0] == TAKEN
    assert "number 2 is due" in table.refusal(3)[1]
    table.check(2)


def test_nothing_follows_the_last(table: Table) -> None:
    table.enter(3, last=3)
    assert table.refusal(4) == (
        ENDED,
        "GROUP_ENDED: group A on queue Q ends with number 3; begin another group",
    )
    assert table.refusal(2, is_last=True)[0] == ENDED  # A second message claims to be the last.
    table.check(2)


def test_last_number_cannot_be_below_a_known_number(table: Table) -> None:
    table.enter(1, 5)
    table.leave(5)
    code, text = table.refusal(4, is_last=True)
    assert code == ENDED
    assert "continues to number 5" in text
    table.check(6, is_last=True)


def test_refusal_says_that_the_group_was_closed(table: Table) -> None:
    table.enter(2)
    row = table.known()
    row.is_closed, row.last = True, 2
    code, text = table.refusal(3)
    assert (code, "group A on queue Q was closed with number 2; begin" in text) == (ENDED, True)


def test_number_in_a_unit_is_taken_until_the_unit_gives_it_up(table: Table) -> None:
    table.groups.pending.keep(Member(A, 2), is_last=False)
    code, text = table.refusal(2)
    assert code == TAKEN
    assert "unit of work" in text
    table.check(1)
    table.groups.check(table.tx, Member(B, 2), is_last=False)
    table.groups.pending.give_up(Member(A, 2))
    table.groups.pending.give_up(Member(A, 2))
    table.check(2)


def test_put_that_contradicts_a_unit_is_refused(table: Table) -> None:
    table.groups.pending.keep(Member(A, 4), is_last=True)
    assert table.refusal(5)[0] == ENDED
    table.check(3)
    table.groups.pending.give_up(Member(A, 4))
    table.groups.pending.keep(Member(A, 4), is_last=False)
    assert table.refusal(3, is_last=True)[0] == ENDED
    table.check(5, is_last=True)
    table.groups.check(table.tx, Member(B, 3), is_last=True)


def test_numbers_in_units_are_known_by_group_until_given_up(table: Table) -> None:
    for number in (3, 1, 2):
        table.groups.pending.keep(Member(A, number), is_last=number == 3)
    table.groups.pending.give_up(Member(A, 3))
    assert table.refusal(2, is_last=True)[0] == TAKEN
    table.check(4)
    table.check(3, is_last=True)
    table.groups.pending.give_up(Member(A, 2))
    table.check(2, is_last=True)
    table.groups.pending.give_up(Member(A, 1))
    assert len(table.groups.pending) == 0


def test_unit_that_ends_frees_its_numbers(app: Client) -> None:
    unit = UnitOfWork(app)
    assert unit.put_records("Q", member("A1"), member("A2!")) == []
    assert unit.put_records("Q", member("A1"), member("A3")) == [TAKEN, ENDED]
    other = app.manager.connect("other")
    assert [x.code for x in other.put_records("Q", member("A1"), member("A3"))] == [TAKEN, ENDED]
    unit.backout()
    assert other.put_records("Q", member("A1"), member("A3")) == []


def test_refused_records_take_no_number_and_others_are_put(app: Client) -> None:
    refused = app.put_records("Q", member("A1"), member("A1"), member("A2!"), member("A3"))
    assert [(x.seq_id, x.code) for x in refused] == [(2, TAKEN), (4, ENDED)]
    assert app.bodies("Q") == [b"A1", b"A2"]


def test_moved_message_becomes_a_member_if_possible(table: Table) -> None:
    assert table.groups.admits(table.tx, Member(A, 1))
    assert not table.groups.admits(table.tx, Member(A, 0))
    table.enter(1, 2, 4, last=4)
    table.leave(1)
    found = [table.groups.admits(table.tx, Member(A, number)) for number in range(1, 6)]
    assert found == [False, False, True, False, False]


def test_number_in_a_unit_is_not_admitted_and_keeps_its_turn(table: Table) -> None:
    table.groups.pending.keep(Member(A, 3), is_last=False)
    table.groups.inherit(table.tx, A, GroupRow(done=5, highest=5))
    table.enter(6)
    assert table.known().due == 3, "otherwise the message of the unit would not be a member"
    found = [table.groups.admits(table.tx, Member(A, number)) for number in (3, 4)]
    assert found == [False, True]


# -- turns


def test_turn_of_a_group_is_at_the_place_of_its_due_member(table: Table) -> None:
    table.enter(2)
    assert (table.chain(), table.known().place) == ({}, b"")
    table.enter(1)
    assert table.chain() == {table.position(1)[1:]: A}
    table.leave(1)
    assert table.chain() == {table.position(2)[1:]: A}
    table.leave(2)
    assert table.chain() == {}


def test_delayed_member_has_no_turn(table: Table) -> None:
    table.enter(1, lane=keys.LANE_DELAYED)
    assert table.chain() == {}
    row = table.known()
    assert (row.count, row.waiting, row.is_whole) == (0, 1, False)


@pytest.mark.parametrize("change", [{"is_paused": True}, {"parked_number": 1}])
def test_stopped_group_has_no_turn(table: Table, change: dict[str, Any]) -> None:
    table.enter(1)
    for name, value in change.items():
        setattr(table.known(), name, value)
    table.groups.mark_changed(A)
    assert table.refresh() == []
    assert table.chain() == {}


def test_refresh_returns_the_places_that_became_available(table: Table) -> None:
    table.groups.enter(table.tx, Member(A, 1), table.position(1), is_last=False, put_us=7)
    assert not table.groups.is_fresh
    assert table.refresh() == [table.position(1)[1:]]
    assert table.groups.is_fresh
    assert table.refresh() == []


def test_rows_beyond_the_cache_are_read_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "ROWS_CACHED_MAX", 0)
    table.enter(1, 2)
    assert not table.groups._rows
    table.leave(1)
    assert (table.known().done, table.known().count) == (1, 1)


def test_row_is_written_only_when_it_changes(table: Table) -> None:
    table.enter(1)
    assert table.groups.wrote
    table.groups.wrote = False
    table.groups.mark_changed(A)
    table.refresh()
    assert not table.groups.wrote


def test_moved_group_continues_with_its_numbers(table: Table) -> None:
    there = GroupRow(done=4, ahead=[[6, 2], [9, 1]], highest=12, last=12)
    table.groups.inherit(table.tx, A, there)
    table.enter(5)
    row = table.known()
    assert (row.done, row.due, row.ahead, row.highest) == (4, 5, [[6, 2], [9, 1]], 9)
    table.groups.inherit(table.tx, A, GroupRow(done=9, highest=9))
    assert table.known().done == 4, "the browse has a separate state"


@pytest.mark.parametrize(
    ("pending", "done", "ahead"),
    [(2, 1, []), (5, 4, []), (8, 4, [[6, 2]]), (10, 4, [[6, 2], [9, 1]])],
)
def test_numbers_in_units_have_not_left(
    table: Table, pending: int, done: int, ahead: list[list[int]]
) -> None:
    table.groups.pending.keep(Member(A, pending), is_last=False)
    there = GroupRow(done=4, ahead=[[6, 2], [9, 1]], highest=12)
    table.groups.inherit(table.tx, A, there)
    row = table.known()
    assert (row.done, row.ahead) == (done, ahead)


# -- retention


def test_group_that_ended_is_forgotten(table: Table) -> None:
    table.enter(1, 2, last=2)
    table.leave(2)
    table.leave(1)
    assert table.row() is None
    assert table.tx.rows == {}


def test_unfinished_group_is_remembered_without_members(table: Table) -> None:
    table.enter(1, 2)
    table.leave(1, 2)
    assert table.known().due == 3
    assert table.known().due_ms == NOW.ms + BOUNDS.group_retention_ms


def test_group_from_which_none_left_for_good_is_forgotten(table: Table) -> None:
    table.enter(1)
    table.leave(1, for_good=False)
    assert table.row() is None


def test_wrong_position_does_not_remove_a_member(table: Table) -> None:
    table.enter(1)
    assert not table.groups.leave(table.tx, Member(A, 1), table.position(2), for_good=True)
    assert not table.groups.leave(table.tx, Member(A, 3), table.position(3), for_good=True)
    assert table.known().count == 1


def put(app: Client, words: str) -> None:
    assert app.put_records("Q", *[member(word) for word in words.split()]) == []


def alter(app: Client, **changes: object) -> None:
    app.ask(m.QueueAlter, "Q", changes)


def rows_of_groups(manager: Manager) -> int:
    return len(manager.scan(keys.SPACE_GROUP_ROW))


def test_empty_group_is_forgotten_in_time(store: AnyStore, app: Client) -> None:
    alter(app, group_retention_ms=1_000)
    put(app, "A1 A2")
    app.ack(*app.get("Q", 2))
    manager = app.manager
    run_due_work(manager, 999)
    assert [x.code for x in app.put_records("Q", member("A2"))] == [TAKEN]
    manager.crash()
    app = manager.connect()
    run_due_work(manager, 1)
    assert rows_of_groups(manager) == scheduled(manager) == 0
    put(app, "A1")


def test_new_member_restarts_the_retention(app: Client) -> None:
    alter(app, group_retention_ms=1_000)
    put(app, "A1")
    app.ack(*app.get("Q"))
    run_due_work(app.manager, 600)
    put(app, "A2")
    run_due_work(app.manager, 5_000)
    assert rows_of_groups(app.manager) == 1, "the group still has a member"
    app.ack(*app.get("Q"))
    run_due_work(app.manager, 999)
    assert rows_of_groups(app.manager) == 1
    run_due_work(app.manager, 1)
    assert rows_of_groups(app.manager) == 0


def test_incomplete_group_is_discarded_in_time(store: AnyStore, app: Client) -> None:
    alter(app, group_incomplete_ms=1_000)
    put(app, "A1 A4 B1 B2! m1")
    app.put("Q", b"A2", group=(A, 2, False), delay_ms=60_000)
    run_due_work(app.manager, 500)
    put(app, "A5")
    run_due_work(app.manager, 999)
    assert len(app.bodies("Q")) == 6
    app.manager.crash()
    app = app.manager.connect()
    run_due_work(app.manager, 1)
    assert app.bodies("Q") == [b"B1", b"B2", b"m1"]
    assert (app.show("Q")["expired"], app.show("Q")["delayed"]) == (4, 0)
    assert "group expired" in [event["event"] for event in events(app)]
    put(app, "A1")  # The daemon has completely forgotten this group.


def test_incomplete_group_becomes_dead_letters_in_order(app: Client) -> None:
    alter(app, group_incomplete_ms=1_000, expiry_action="dead-letter")
    put(app, "A4@9 A3 A1")
    run_due_work(app.manager, 1_000)
    dead = app.get("SYSTEM.DEAD.LETTERS", 9)
    assert sorted(bodies(dead)) == [b"A1", b"A3", b"A4"]
    assert [x.body for x in sorted(dead, key=lambda x: x.arrival)] == [b"A1", b"A3", b"A4"]
    assert {note_of(x)["code"] for x in dead} == {ErrorCode.GROUP_EXPIRED}
    assert app.bodies("Q") == []


def test_leased_members_of_an_incomplete_group_are_awaited(app: Client) -> None:
    alter(app, group_incomplete_ms=1_000)
    put(app, "A1 A2")
    (held,) = app.get("Q")
    run_due_work(app.manager, 1_000)
    assert app.bodies("Q") == [b"A1", b"A2"]
    assert app.ack(held) == []
    run_due_work(app.manager, 1_000)
    assert app.bodies("Q") == []
    assert app.show("Q")["expired"] == 1


def test_member_that_arrives_at_the_deadline_is_in_time(app: Client) -> None:
    """A message that arrives after a delay may become available in the same turn."""
    alter(app, group_incomplete_ms=1_000)
    put(app, "A1 A3~")
    run_due_work(app.manager, 1_500)
    assert app.bodies("Q") == [b"A1", b"A3"]
    run_due_work(app.manager, 1_000)
    assert app.bodies("Q") == []


@pytest.mark.parametrize("words", ["A1 A2!", "A2! A1~"])
def test_complete_group_does_not_expire(app: Client, words: str) -> None:
    alter(app, group_incomplete_ms=1_000)
    put(app, words)
    run_due_work(app.manager, 10_000)
    assert sorted(app.bodies("Q")) == [b"A1", b"A2"]


def test_group_that_waits_for_an_operator_does_not_expire(app: Client) -> None:
    alter(app, group_incomplete_ms=1_000)
    put(app, "A1")
    app.ask(m.GroupAlter, "Q", A, "pause")
    run_due_work(app.manager, 10_000)
    assert app.bodies("Q") == [b"A1"]
    app.ask(m.GroupAlter, "Q", A, "resume")
    run_due_work(app.manager, 2_000)
    assert app.bodies("Q") == []


def test_incomplete_group_expires_in_time_even_if_it_was_empty_once(app: Client) -> None:
    """The check of the empty group was due days later, at the end of its retention."""
    alter(app, group_incomplete_ms=1_000)
    put(app, "A1")
    app.ack(*app.get("Q"))
    run_due_work(app.manager, 1_000)
    put(app, "A2")
    run_due_work(app.manager, 1_000)
    assert app.bodies("Q") == []
    audit(app.manager)


def test_group_is_named_as_text_where_it_is_one() -> None:
    assert shown(b"order-7".ljust(24, b"\0")) == "order-7"
    assert shown(bytes(range(24))) == bytes(range(24)).hex()
    assert shown(b"\xff" * 24) == "ff" * 24
    assert shown(b" " * 24) == "20" * 24
