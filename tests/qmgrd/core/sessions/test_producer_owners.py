"""The remembered producers of each user."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from tests.qmgrd.core.access.test_user_limits import GRANTS, HOUR_MS, limit, open_producer, use_of
from tests.qmgrd.core.access.test_user_limits import guarded as guarded
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Manager


def test_idle_producer_of_the_user_makes_room_for_a_new_one(guarded: Guarded) -> None:
    manager, bob = guarded.manager, guarded.user("bob", *GRANTS)
    eve = guarded.user("eve", *GRANTS)
    limit(guarded, "bob", producers_max=2)
    for number in (1, 2):
        open_producer(bob, number)
        manager.advance(1)
    open_producer(eve, 9)
    bob.hang_up()
    manager.turn()
    again = manager.connect("bob", user="bob")
    with pytest.raises(RequestError, match="has been unused for 10 minutes"):
        open_producer(again, 3)
    manager.turn(11 * 60_000)
    open_producer(again, 3)
    assert guarded.owner.ask(m.Status)["producers"] == 3
    assert use_of(guarded, "bob")["producers"] == 2
    open_producer(again, 2)  # This producer was used more recently than the evicted one.
    with pytest.raises(RequestError):  # Both producers are in use now.
        open_producer(again, 1)
    assert use_of(guarded, "eve")["producers"] == 1


@pytest.mark.parametrize("crashes", [False, True])
def test_forgotten_producers_do_not_count(guarded: Guarded, crashes: bool) -> None:
    manager, bob = guarded.manager, guarded.user("bob", *GRANTS)
    open_producer(bob, 1)
    bob.hang_up()
    manager.turn()
    if crashes:
        manager.crash()
        guarded.owner = manager.connect("owner")
    assert use_of(guarded, "bob")["producers"] == 1
    manager.turn(40 * 24 * HOUR_MS)
    manager.rest()
    assert use_of(guarded, "bob")["producers"] == 0


def test_producers_from_before_the_first_user_belong_to_nobody(manager: Manager) -> None:
    open_producer(manager.connect(), 1)
    guarded = Guarded(manager)
    limit(guarded, "admin", producers_max=1)
    open_producer(manager.connect(user="admin"), 2)
    assert use_of(guarded, "admin")["producers"] == 1
