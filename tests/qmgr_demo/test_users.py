"""Tests that no user of the demo has more rights than its programs need."""

from qmgr_demo.flights import AIRPORTS
from qmgr_demo.traffic import HUB
from qmgr_demo.users import USERS, USERS_TOTAL


def test_only_links_are_bound_to_a_queue_manager_and_have_the_role_of_peers() -> None:
    bound = {user.name: user.queue_manager for user in USERS[HUB] if "peer" in user.roles}
    assert bound == {name: name for name in AIRPORTS}
    others = [user for users in USERS.values() for user in users if user.name not in bound]
    assert not any(user.queue_manager for user in others)


def test_no_user_may_do_everything() -> None:
    users = [user for users in USERS.values() for user in users]
    assert not [user for user in users if "administrator" in user.roles]
    assert len(users) + len(USERS) == USERS_TOTAL  # An administrator is added to each.
