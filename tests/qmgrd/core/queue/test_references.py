"""Tests of the number of holders of a publication."""

from qmgrd.core.queue.references import References
from tests.qmgrd.core.pubsub import Hub


def test_changes_of_a_turn_add_up() -> None:
    references = References()
    references.add(7)
    for _ in range(3):
        references.add(7)
    references.remove(7)
    references.remove(8)
    assert references.changes == {7: 3, 8: -1}


def test_last_holder_removes_the_publication() -> None:
    hub = Hub()
    for number in range(3):
        hub.subscribe("t", f"S:{number}")
    hub.publish("t", b"x", retain=True)
    assert hub.holders() == {1: 4}
    for number, left in ((0, {1: 3}), (1, {1: 2}), (2, {1: 1})):
        hub.take(f"S:{number}")
        assert hub.holders() == left
    hub.publish("t", b"", retain=True)
    for number in range(3):
        assert hub.take(f"S:{number}") == [b""]
    hub.empty()
