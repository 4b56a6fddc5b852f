"""Tests that planted bugs in groups are found.

test_broken.py explains the method.
"""

from typing import Any

import pytest

from qmgr_protocol.messages import STATE_TAKEN_OVER
from qmgrd.core.jobs import group_end
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.queue.group import follow as group_follow
from qmgrd.core.queue.group import groups
from qmgrd.core.queue.group import run as group_run
from qmgrd.core.queue.group import take as group_take
from qmgrd.core.queue.group.groups import Groups
from qmgrd.core.queue.group.held_groups import HeldGroups
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.core.returns import returns
from tests.sim import scenario
from tests.sim.broken import STEPS, Patch, assert_caught
from tests.sim.group_writer import Group
from tests.sim.world import World

pytestmark = pytest.mark.long


def test_group_begins_after_its_due_member(monkeypatch: Patch) -> None:
    begin = HeldGroups.begin

    def greedy(self: HeldGroups, group_id: bytes, reader: Any, number: int) -> Any:
        return begin(self, group_id, reader, number + len(self.leased) % 2)

    monkeypatch.setattr(HeldGroups, "begin", greedy)
    assert_caught({"members_are_in_order"}, first=7)


def test_stopped_group_continues(monkeypatch: Patch) -> None:
    """A group is stopped if it is parked, or if an operator paused it."""
    monkeypatch.setattr(GroupRow, "is_stopped", property(lambda self: False))
    assert_caught({"stopped_is_held_back"}, first=15)


def test_gap_is_skipped(monkeypatch: Patch) -> None:
    after = GroupRow.after

    def hasty(self: GroupRow, number: int) -> int:
        found = after(self, number)
        return found + 1 if self.missing > 0 else found

    monkeypatch.setattr(GroupRow, "after", hasty)
    assert_caught({"members_are_in_order"}, first=7)


def test_first_arrival_is_taken_for_the_due_member(monkeypatch: Patch) -> None:
    """Over two links, the messages of a group may arrive in a different order."""
    monkeypatch.setattr(GroupRow, "due", property(lambda self: self.after(self.highest)))
    assert_caught({"members_are_in_order", "groups_agree"})


def test_chain_is_not_stored(monkeypatch: Patch) -> None:
    update = Groups._update_chain

    def forgetful(self: Groups, tx: Any, group_id: bytes, row: GroupRow) -> Any:
        found = update(self, tx, group_id, row)
        if row.place:
            tx.delete(keys.chain(self._id, row.place))
        return found

    monkeypatch.setattr(Groups, "_update_chain", forgetful)
    assert_caught({"groups_agree"}, first=4)


def test_row_of_a_group_is_not_stored(monkeypatch: Patch) -> None:
    put = rows.put

    def forgetful(tx: Any, key: bytes, data: bytes) -> None:
        if key[:1] != keys.SPACE_GROUP_ROW or tx.get(key) is None:
            put(tx, key, data)

    monkeypatch.setattr(rows, "put", forgetful)
    assert_caught({"groups_agree"}, first=4)


def test_failed_member_becomes_a_dead_letter_alone(monkeypatch: Patch) -> None:
    monkeypatch.setattr(returns.Returns, "_park", lambda *arguments: False)
    assert_caught({"members_wait_for_their_group"})


@pytest.fixture
def puts_again(monkeypatch: Patch) -> None:
    """Lets applications put the first number of each group again, which otherwise is rare."""
    owed = Group.owed

    def repeated(self: Group, life: str) -> int:
        number = owed(self, life)
        if number or 1 in self.unsure or 1 not in self.puts or self.puts[1].answer != "acked":
            return number
        self.unsure.add(1)
        return 1

    monkeypatch.setattr(Group, "owed", repeated)


@pytest.mark.usefixtures("puts_again")
def test_number_that_is_put_again_is_refused() -> None:
    World(0, steps=STEPS).run()


@pytest.mark.usefixtures("puts_again")
def test_number_is_accepted_twice(monkeypatch: Patch) -> None:
    monkeypatch.setattr(groups, "check_row", lambda *arguments, **terms: None)
    assert_caught({"number_is_put_once", "groups_agree"})


def test_new_holder_is_not_informed(monkeypatch: Patch) -> None:
    for module in (group_follow, group_run):
        monkeypatch.setattr(module, "STATE_TAKEN_OVER", STATE_TAKEN_OVER & 0)
    assert_caught({"taken_over_is_told"})


def test_held_group_is_delivered_to_any_consumer(monkeypatch: Patch) -> None:
    may_begin = group_take._Round._may_begin

    def lax(self: Any, group_id: bytes) -> bool:
        return group_id in self._groups.held_groups.by_group or may_begin(self, group_id)

    monkeypatch.setattr(group_take._Round, "_may_begin", lax)
    assert_caught({"group_has_one_holder", "taken_over_is_told"}, first=2)


@pytest.fixture
def short_lived_groups(monkeypatch: Patch) -> None:
    """Lets incomplete groups expire soon. Otherwise, a removed group rarely has a leased member."""
    attributes = scenario.group_attributes
    monkeypatch.setattr(
        scenario,
        "group_attributes",
        lambda random: attributes(random) | {"group_incomplete_ms": 500},
    )


@pytest.mark.usefixtures("short_lived_groups")
def test_removal_of_a_group_waits_for_its_leased_members() -> None:
    World(13, steps=STEPS).run()


@pytest.mark.usefixtures("short_lived_groups")
def test_leased_members_leave_with_their_group(monkeypatch: Patch) -> None:
    """A message that a consumer has leased must stay on the queue."""
    end = group_end._end

    def reckless(context: Any, catalogue: Any, job: Any, queue: Any, *member: Any) -> Any:
        lease = queue.leases.get(int.from_bytes(member[-1][2:], "big"))
        if lease is not None:
            queue.end(lease)
        return end(context, catalogue, job, queue, *member)

    monkeypatch.setattr(group_end, "_end", reckless)
    assert_caught({"leased_is_left_alone"}, first=13)
