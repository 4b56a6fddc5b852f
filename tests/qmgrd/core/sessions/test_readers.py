"""Tests of readers: the group that each reads, and its end (PROTOCOL.md, Message groups)."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.group_player import GroupPlayer, group_id


@pytest.fixture
def player() -> GroupPlayer:
    player = GroupPlayer()
    player("put A1 A2 A3! B1 B2!")
    return player


def test_reader_is_of_one_queue(player: GroupPlayer) -> None:
    player("get")
    player.operator.ask(m.QueueCreate, "OTHER")
    with pytest.raises(RequestError, match="reader 1 reads a queue other than OTHER"):
        player.app("app").ask(m.Get, "OTHER", 1, 0, 0, 1, "", b"", b"", b"", m.LOGICAL, False, 0, 1)


def test_readers_of_a_connection_are_limited() -> None:
    player = GroupPlayer()
    limit = player.manager.config.limits.consumers_per_connection_max
    for reader in range(1, limit + 1):
        assert player(f"get reader={reader}") == "has none"
    assert player(f"get reader={limit + 1}").startswith("CONSUMERS_EXHAUSTED")
    player("close 7")
    assert player(f"get reader={limit + 1}") == "has none"


def test_close_of_an_unknown_reader_succeeds(player: GroupPlayer) -> None:
    assert player("close 99") == "closed"


def test_readers_of_two_connections_have_one_number_and_two_groups(player: GroupPlayer) -> None:
    assert player("one: get") == "has +A1"
    assert player("two: get") == "has +B1"
    assert player("one: get") == "has A2"


def test_get_without_a_reader_is_in_no_group_afterwards(player: GroupPlayer) -> None:
    """The leased messages are settled before another reader gets more of the group."""
    assert player("get reader=0") == "has +A1"
    assert player("get reader=0") == "has +B1"
    player("ack A1")
    assert player("get reader=0") == "has +A2"


def test_consumer_that_is_cancelled_leaves_its_group(player: GroupPlayer) -> None:
    assert player("one: consume logical credit=1") == "a consumer is open\none has +A1"
    player("one: cancel")
    player("one: ack A1")
    assert player("two: get") == "has +A2"


def test_reader_leaves_a_purged_group(player: GroupPlayer) -> None:
    """Otherwise, a reader would wait for ever for a message of a purged group."""
    player("get")
    player("ack A1")
    player.operator.ask(m.QueuePurge, "Q", "group_number > 1")
    assert player("get") == "has +B1"


def test_reader_leaves_a_group_closed_by_an_operator() -> None:
    player = GroupPlayer()
    player("put A1 A2 A3 B1")
    player("get count=2")
    player("ack A1 A2")
    player("get")
    player("alter A close")
    player("ack A3")
    assert player("get") == "has +B1"


def test_reader_waits_in_its_group_while_others_go_on(player: GroupPlayer) -> None:
    player("put C1 C3!")
    for body in ("A1", "A2", "A3", "B1", "B2", "C1"):
        assert player("one: get").endswith(body)
    assert player("one: get wait=1000") == "asks"
    player("put D1!")
    assert player("two: get") == "has +D1"
    assert "one has C2" in player("put C2")


def test_deleted_queue_ends_its_readers_with_it(player: GroupPlayer) -> None:
    player("get")
    player.operator.ask(m.QueueDelete, "Q", True)
    player.operator.ask(m.QueueCreate, "Q")
    assert player("close") == "closed"
    player("put Z1 Z2!")
    assert player("get count=2") == "has +Z1 Z2"


def test_group_in_physical_order_that_another_holds_is_not_entered(player: GroupPlayer) -> None:
    player("one: get")
    assert player("two: get physical group=A number=3") == "has A3"
    assert player("two: get") == "has +B1"
    row = player.operator.ask(m.GroupShow, "Q", group_id("A"))
    assert row["holder"].endswith("one")


def test_number_without_a_group_is_refused(player: GroupPlayer) -> None:
    assert player("get number=3").startswith(ErrorCode.VALUE_INVALID.name)


def test_reader_reads_the_next_queue_of_that_name(player: GroupPlayer) -> None:
    player("get")
    player.operator.ask(m.QueueDelete, "Q", True)
    player.manager.rest()
    player.operator.ask(m.QueueCreate, "Q")
    player("put A1")
    assert player("get") == "has +A1"
