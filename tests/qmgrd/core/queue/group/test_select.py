"""Tests of what a reader receives: its next message, or a refusal (E7, E18)."""

import pytest

from qmgr_protocol.errors import ErrorCode
from qmgrd.core.queue.group.select import MatchInconsistent
from tests.group_player import GroupPlayer


@pytest.fixture
def player() -> GroupPlayer:
    player = GroupPlayer()
    player("put A1 A2! B1 m1")
    player("get")
    return player


@pytest.mark.parametrize("way", ["body=A2", "group=A", "group=A number=2", "where=group_number=2"])
def test_next_member_may_be_selected(player: GroupPlayer, way: str) -> None:
    assert player(f"get {way}") == "has A2"


@pytest.mark.parametrize(
    "way", ["body=A1", "body=m1", "group=B", "group=A number=1", "where=group_number=1"]
)
def test_anything_else_is_refused(player: GroupPlayer, way: str) -> None:
    assert player(f"get {way}").startswith(ErrorCode.MATCH_INCONSISTENT.name)
    assert player("get") == "has A2"


def test_refusal_names_the_next_number() -> None:
    assert "the selection does not include number 7" in MatchInconsistent(7).text


def test_missing_next_member_is_waited_for(player: GroupPlayer) -> None:
    player("get")
    player("put C1")
    assert player("get group=C") == "has +C1"
    assert player("get group=C number=2 wait=1000") == "asks"
    assert player("put C2!").endswith("has C2")


def test_selected_message_without_a_group_is_delivered_alone() -> None:
    player = GroupPlayer()
    player("put A1 m1 m2")
    assert player("get body=m2") == "has m2"
    assert player("get where=correlation_id='cm1'") == "has m1"
    assert player("get") == "has +A1"
