"""The rights of one user, and the decisions that are remembered."""

from collections.abc import Callable

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.need import Kind, Right
from qmgrd.core.access import access as access_
from qmgrd.core.access.access import Access, RememberedDecisions
from qmgrd.core.access.grant import Grant

PUT = Grant(Right.PUT, Kind.QUEUE, "A*")
SHOW = Grant(Right.SHOW, Kind.MANAGER)


def access(*grants: Grant, is_administrator: bool = False) -> Access:
    found = Access("app")
    found.grant(list(grants), is_administrator=is_administrator)
    return found


def test_user_may_do_what_was_granted_and_nothing_else() -> None:
    found = access(PUT, SHOW)
    assert found.may(Right.PUT, Kind.QUEUE, "A1")
    assert found.may(Right.SHOW, Kind.MANAGER)
    for right, kind, name in (
        (Right.PUT, Kind.QUEUE, "B"),
        (Right.GET, Kind.QUEUE, "A1"),
        (Right.PUT, Kind.TEMPLATE, "A1"),
        (Right.ADMIN, Kind.MANAGER, ""),
        (Right.ADMIN, Kind.USER, "A1"),
    ):
        assert not found.may(right, kind, name)
    assert not Access("other").may(Right.PUT, Kind.QUEUE, "A1")


def test_administrator_may_do_everything_without_a_grant() -> None:
    found = access(is_administrator=True)
    for kind in Kind:
        assert all(found.may(right, kind, "x") for right in Right)
        assert found.sees(kind, "x")
        assert found.deciding(Right.SHOW, kind, "x") is None


@pytest.mark.parametrize("before", [True, False])
def test_changed_rights_are_in_force_at_once(before: bool) -> None:
    """A decision from before the change is forgotten."""
    found = access(*([PUT] if before else []))
    assert found.may(Right.PUT, Kind.QUEUE, "A1") == before
    found.grant([] if before else [PUT], is_administrator=False)
    assert found.may(Right.PUT, Kind.QUEUE, "A1") != before
    found.grant([], is_administrator=True)
    assert found.may(Right.PUT, Kind.QUEUE, "B")
    found.grant([], is_administrator=False)
    assert not found.may(Right.PUT, Kind.QUEUE, "B")


def test_any_right_on_an_object_shows_that_it_exists() -> None:
    found = access(PUT)
    assert found.sees(Kind.QUEUE, "A1")
    assert not found.sees(Kind.QUEUE, "B")
    assert not found.sees(Kind.LINK, "A1")


def test_deciding_grant_is_the_first_one_that_covers_the_object() -> None:
    wide = Grant(Right.PUT, Kind.QUEUE, "*")
    assert access(PUT, wide).deciding(Right.PUT, Kind.QUEUE, "A1") is PUT
    assert access(PUT, wide).deciding(Right.PUT, Kind.QUEUE, "B") is wide
    assert access(PUT).deciding(Right.PUT, Kind.QUEUE, "B") is None


def test_names_that_a_user_makes_up_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_, "DECISIONS_MAX", 10)
    found = access(PUT)
    for number in range(100):
        assert found.may(Right.PUT, Kind.QUEUE, f"A{number}")
        assert not found.may(Right.PUT, Kind.QUEUE, f"B{number}")
        assert len(found.decided) <= 10


class Users:
    """Users that share the limit of remembered decisions."""

    def __init__(self, count: int) -> None:
        self.remembered = RememberedDecisions()
        self.all = [Access(f"user{number}", "", self.remembered) for number in range(count)]
        for found in self.all:
            found.grant([PUT], is_administrator=False)

    @property
    def count(self) -> int:
        return sum(len(found.decided) + len(found.allowed) for found in self.all)


def test_decisions_of_all_users_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_, "DECISIONS_MAX", 10)
    monkeypatch.setattr(access_, "ALL_DECISIONS_MAX", 25)
    users = Users(8)
    for number in range(40):
        for found in users.all:
            assert found.may(Right.PUT, Kind.QUEUE, f"A{number}")
            assert not found.may(Right.PUT, Kind.QUEUE, f"B{number}")
            found.remember(m.Put, f"A{number}")
            assert users.remembered.count == users.count <= 25
    assert users.count > 10


@pytest.mark.parametrize("forget", [Access.forget, Access.forget_allowed])
def test_forgotten_decisions_make_room(
    monkeypatch: pytest.MonkeyPatch, forget: Callable[[Access], None]
) -> None:
    monkeypatch.setattr(access_, "ALL_DECISIONS_MAX", 4)
    users = Users(2)
    first, second = users.all
    first.remember(m.Put, "A1")
    first.may(Right.PUT, Kind.QUEUE, "A1")
    second.remember(m.Put, "A1")
    forget(first)
    assert not first.allowed
    assert users.remembered.count == users.count
    second.remember(m.Put, "A2")
    assert second.allowed == {(m.Put, "A1"), (m.Put, "A2")}, "nothing had to be forgotten"


def test_decision_on_a_long_name_is_not_remembered() -> None:
    """A user may send names of any length, and each remembered one takes memory."""
    found = access(Grant(Right.PUBLISH, Kind.TOPIC, "#"))
    name = "t" * access_.NAME_MAX
    assert found.may(Right.PUBLISH, Kind.TOPIC, name)
    assert found.may(Right.PUBLISH, Kind.TOPIC, name + "t")
    assert set(found.decided) == {(Right.PUBLISH, Kind.TOPIC, name)}
