"""Tests that no link fills the dead-letter queue for the others."""

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.catalogue.system import DEAD_LETTERS
from qmgrd.core.returns import link_shares
from tests.memory_store import MemoryStore
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.harness import Manager, record

LIMIT_BYTES = 4_000
BODY = b"x" * 100


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> Manager:
    """Returns a queue manager whose links may fill LIMIT_BYTES with dead letters."""
    found = Manager(MemoryStore())
    monkeypatch.setattr(link_shares, "MAP_SHARE", found.config.store.map_bytes // LIMIT_BYTES)
    return found


def fill(manager: Manager, name: str) -> int:
    """Sends messages that become dead letters until one is held back.

    Returns the number of bytes that the dead-letter queue has more than before.
    """
    before = dead_bytes(manager)
    far = Far(manager, name, name.encode() * 16)
    far.open(name.encode() * 16 + bytes(8))
    for seq_id in range(1, 100):
        one = record(BODY, uid=(name, manager.wall_us + seq_id))
        if far.client.say(m.Put(far.stream, seq_id, 0, "SYSTEM.EVENTS", [one])):
            return dead_bytes(manager) - before
    raise AssertionError("nothing was held back")


def dead_bytes(manager: Manager) -> int:
    return int(manager.connect("owner").show(DEAD_LETTERS)["bytes"])


def test_each_link_leaves_as_much_as_it_uses(manager: Manager) -> None:
    one = len(record(BODY, uid=("A", 1)))
    first, second = fill(manager, "A"), fill(manager, "B")
    assert LIMIT_BYTES // 2 <= first <= LIMIT_BYTES // 2 + one
    assert LIMIT_BYTES // 4 - one <= second <= LIMIT_BYTES // 4 + one
    assert fill(manager, "C") > 0
    assert fill(manager, "A") == 0


def test_link_does_not_fill_the_queue_over_restarts(manager: Manager) -> None:
    one = len(record(BODY, uid=("A", 1)))
    for _ in range(3):
        fill(manager, "A")
        manager.restart()
    assert dead_bytes(manager) <= LIMIT_BYTES * 7 // 8 + 2 * one
    assert fill(manager, "B") > 0


def test_link_goes_on_once_dead_letters_have_left(manager: Manager) -> None:
    first = fill(manager, "A")
    manager.connect("owner").ask(m.QueuePurge, DEAD_LETTERS)
    manager.rest()
    assert fill(manager, "A") == first
