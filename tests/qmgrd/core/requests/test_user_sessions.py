"""Connections share the rights and the limits of their user."""

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.access.login import OPEN
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager


@pytest.fixture
def bob(manager: Manager) -> Client:
    guarded = Guarded(manager)
    first = guarded.user("bob")
    guarded.owner.ask(m.UserAlter, "bob", {"puts_per_s_max": 5})
    return first


def test_connection_belongs_to_its_user_until_it_closes(bob: Client) -> None:
    manager = bob.manager
    other = manager.connect("bob", user="bob")
    manager.turn()
    broker = manager.turns.broker
    access = broker.users.accesses["bob"]
    numbers = {bob.peer.number, other.peer.number}
    assert set(access.sessions) == numbers
    assert broker.context.put_rates.of == dict.fromkeys(numbers, access.put_rate)
    for client in (bob, other):
        client.hang_up()
    manager.turn()
    assert access.sessions == {}
    assert broker.context.put_rates.of == {}


@pytest.mark.parametrize("is_owner", [False, True])
def test_connection_without_a_user_has_no_limits(manager: Manager, is_owner: bool) -> None:
    client = manager.connect() if is_owner else manager.connect(identity=OPEN)
    client.ask(m.QueueCreate, "Q")
    client.put("Q", b"body")
    broker = manager.turns.broker
    assert broker.sessions[client.peer.number].access is None
    assert broker.context.put_rates.of == {}
    assert "owner" not in client.show("Q")
