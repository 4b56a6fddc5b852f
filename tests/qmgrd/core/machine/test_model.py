"""Tests of bugs in the model itself, each as the rules that revealed the bug."""

from tests.qmgrd.core.machine.machine import Machine
from tests.qmgrd.core.machine.message import Wish
from tests.qmgrd.core.machine.model import DEAD_LETTERS

GROUP = b"g" * 24


def test_dead_members_of_one_step_are_different_messages_D10() -> None:
    """No UID is known yet. The third message was mistaken for a copy of the second (seed 18)."""
    machine = Machine()
    machine.put_one(seat=0, wish=Wish(b"", group=(GROUP, 1, False)))
    machine.get(seat=0, queue="Q", count=1, lease_ms=0)
    machine.reject(seat=0, number=0, words=("", ""))
    machine.put_group(seat=0, wish=Wish(b""), group_id=GROUP, count=2)
    dead = machine.model.on(DEAD_LETTERS)
    assert sorted(x.number for x in dead if x.is_member) == [1, 2, 3]


def test_ended_group_is_forgotten_before_its_members_are_dead_letters_again() -> None:
    """The last message left in the step in which all became dead letters again (seed 120)."""
    machine = Machine()
    machine.put_group(seat=0, wish=Wish(b""), group_id=GROUP, count=2)
    machine.skip_in_group(seat=0, number=0, to=0)
    machine.move(seat=0, source=DEAD_LETTERS, where="", most=0)
    for queue in ("B", "Q"):
        machine.get(seat=0, queue=queue, count=1, lease_ms=0)
        machine.reject(seat=None, number=0, words=("", ""))
    machine.move(seat=0, source=DEAD_LETTERS, where="", most=0)
    dead = machine.model.on(DEAD_LETTERS)
    assert [x.number for x in dead if x.is_member] == [1, 2]


def test_message_lost_at_a_restart_leaves_its_group_at_the_restart() -> None:
    """Once, a group that had just changed was forgotten as idle (seeds 101 and 265)."""
    machine = Machine()
    wish = Wish(b"", group=(GROUP, 1, True), volatile=True)
    machine.put_one(seat=0, wish=wish)
    machine.close_group(seat=0, number=0)
    machine.wall_clock_jumps(years=1)
    machine.crash(away_ms=0)
    assert ("Q", GROUP) in machine.model.groups.known
