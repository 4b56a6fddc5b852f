"""Tests of queue managers that stop and return. None delays the others or is forgotten."""

from typing import NamedTuple

import pytest

from qmgr_tables.stream import managers as stream_managers
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.managers import Managers

HOUR_MS = 3_600_000


class Status(NamedTuple):
    """The state of a queue manager."""

    store_id: str
    number: int


class Fleet:
    """Queue managers by address, all of them available. ``waits`` contains the requested waits."""

    def __init__(self, **found: Status | None) -> None:
        self.found = found
        self.waits: list[tuple[str, int | None]] = []

    def managers(self, wait_ms: int = HOUR_MS) -> Managers[Status]:
        return Managers({url: self._ask(url) for url in self.found}, wait_ms)

    def _ask(self, url: str) -> "stream_managers.Ask[Status]":
        def ask(wait_ms: int | None) -> Status:
            self.waits.append((url, wait_ms))
            found = self.found[url]
            if found is None:
                raise ManagerAway(f"{url} is away")
            return found

        return ask


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allows requests to unavailable queue managers, without a pause between them."""
    monkeypatch.setattr(stream_managers, "REST_S", 0.0)
    monkeypatch.setattr(stream_managers, "REST_DIALS", 0)


ONE, TWO = Status("s1", 1), Status("s2", 1)


class Clock:
    """A replacement for the module `time`. Its time advances only with sleep()."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_slow_queue_manager_gets_a_pause_unless_all_answers_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, asked = Clock(), list[float]()
    monkeypatch.setattr(stream_managers, "time", clock)

    def slow(wait_ms: int | None) -> Status:
        asked.append(clock.now_s)
        clock.sleep(0.02)
        return ONE

    managers = Managers({"a": slow, "b": lambda wait_ms: TWO}, HOUR_MS)
    managers.states(wait=False)
    managers.states(wait=True)
    managers.states(wait=False)
    assert asked == pytest.approx([0, 0.02, 0.04 + stream_managers.REST_ASKS * 0.02])


def test_all_are_asked_and_where_they_are_is_known() -> None:
    fleet = Fleet(a=ONE, b=TWO)
    managers = fleet.managers()
    assert managers.states(wait=False) == [("a", ONE), ("b", TWO)]
    assert fleet.waits == [("a", 0), ("b", 0)]
    assert (managers.find("s2"), managers.away) == (("b", TWO), {})
    assert len(fleet.waits) == 2
    fleet.found |= {"a": TWO, "b": Status("s3", 1)}  # Store s2 has moved to another address.
    managers.states(wait=True)
    assert fleet.waits[2:] == [("a", None), ("b", None)]
    assert managers.find("s2") == ("a", TWO)
    with pytest.raises(DataLost, match="a, b: none of these has store s9 of the checkpoint: na"):
        managers.find("s9")


def test_unavailable_manager_is_left_alone_for_a_while_and_holds_up_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fleet = Fleet(a=ONE, b=None)
    managers = fleet.managers()
    for _ in range(3):
        assert managers.states(wait=False) == [("a", ONE)]
    assert [url for url, _ in fleet.waits] == ["a", "b", "a", "a"]
    assert (
        caplog.text.count(
            "qmgr: b is away; the stream continues without this queue manager for now"
        )
        == 1
    )
    assert list(managers.away) == ["b"]


@pytest.mark.usefixtures("restless")
def test_who_is_there_again_is_away_no_more() -> None:
    fleet = Fleet(a=None)
    managers = fleet.managers()
    assert managers.states(wait=False) == []
    fleet.found["a"] = ONE
    assert managers.states(wait=False) == [("a", ONE)]
    assert managers.away == {}


@pytest.mark.usefixtures("restless")
def test_who_was_away_for_too_long_is_reported() -> None:
    fleet = Fleet(a=ONE, b=None)
    with pytest.raises(ManagerAway, match="b is away"):
        fleet.managers(0).states(wait=False)
    managers = fleet.managers()
    with pytest.raises(ManagerAway, match="b is away"):
        managers.states(wait=True)  # The ask function itself waited.
    with pytest.raises(ManagerAway, match="b is away"):
        managers.find("s2")
    assert managers.find("s1") == ("a", ONE)
