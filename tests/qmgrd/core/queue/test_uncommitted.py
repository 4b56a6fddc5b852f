"""Tests of those messages of a queue that open units of work hold."""

from qmgrd.core.queue.uncommitted import Uncommitted


def test_puts_are_counted_until_they_are_removed() -> None:
    uncommitted = Uncommitted()
    uncommitted.add({b"a": 3, b"b": 4}, 30)
    uncommitted.add({b"c": 5}, 5)
    assert (uncommitted.messages, uncommitted.bytes, uncommitted.lowest) == (3, 35, 3)
    uncommitted.remove(b"a", 10)
    assert (uncommitted.messages, uncommitted.bytes, uncommitted.lowest) == (2, 25, 4)
    uncommitted.remove(b"b", 20)
    uncommitted.remove(b"c", 5)
    assert (uncommitted.messages, uncommitted.bytes, uncommitted.lowest) == (0, 0, 0)
    assert uncommitted.arrivals == {}


def test_puts_whose_arrival_the_commit_assigns_keep_none() -> None:
    uncommitted = Uncommitted()
    uncommitted.add({b"a": 0}, 1)
    assert uncommitted.lowest == 0
