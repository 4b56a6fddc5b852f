"""Tests of a standby. test_member.py tests takeovers after the end of a session."""

from pathlib import Path

import pytest

from qmgr_protocol.errors import ErrorCode
from qmgrd.engine.fence import Fence, claim, read_fence
from qmgrd.engine.schema import Place, open_place
from qmgrd.engine.server import connect
from qmgrd.member.standby import Standby
from qmgrd.store.logged_store import LoggedStore

FENCE = Fence(3, "nyc1", "nyc1:7470", 0, "", "", True, 0)


def standby(url: str, place: Place, directory: Path, *, gives_way: bool = False) -> Standby:
    store = LoggedStore(directory, 1 << 28, place.log_id)
    return Standby(url, place, store, ("NYC", "nyc2", "nyc2:7470"), 1.0, gives_way=gives_way)


@pytest.fixture
def place() -> Place:
    return Place(1, b"12345678")


def test_clients_are_told_where_the_active_member_is(place: Place, tmp_path: Path) -> None:
    found = standby("", place, tmp_path)
    assert found.words() == "this member of NYC is starting"
    found.fence = FENCE
    assert found.words() == "NYC is active at nyc1:7470 (member nyc1)"
    assert found.goodbye().code == ErrorCode.NOT_ACTIVE
    found.fence = FENCE._replace(is_held=False)
    assert found.words() == "no member of NYC is active at the moment"


@pytest.mark.parametrize(
    ("fence", "seconds", "why"),
    [
        (FENCE, 0.9, ""),
        (FENCE, 1.1, "nyc1 appended nothing for 1.1 s"),
        (FENCE._replace(is_held=False), 0.6, ""),
        (FENCE._replace(is_held=False), 0.8, "the session of nyc1 ended"),
        (FENCE._replace(is_held=False, member="", why=""), 0.0, "the first start"),
        (FENCE._replace(is_held=False, member="", why="nyc1 stopped"), 0.0, "nyc1 stopped"),
        (FENCE._replace(is_held=False, wanted="nyc2"), 0.6, ""),
        (FENCE._replace(is_held=False, wanted="nyc2"), 0.8, "an operator switched over"),
        (FENCE._replace(is_held=False, wanted="nyc2", member=""), 0.0, "an operator switched over"),
        (FENCE._replace(is_held=False, wanted="nyc3"), 2.9, ""),
        (FENCE._replace(is_held=False, wanted="nyc3"), 3.1, "nyc3 did not start"),
        (FENCE._replace(is_held=True, wanted="nyc2"), 0.9, ""),
    ],
)
def test_reasons_to_become_active(
    fence: Fence,
    seconds: float,
    why: str,
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qmgrd.member.standby.time.monotonic", lambda: 100.0)
    found = standby("", place, tmp_path)
    found._why_now(fence)
    monkeypatch.setattr("qmgrd.member.standby.time.monotonic", lambda: 100.0 + seconds)
    assert found._why_now(fence) == why


def test_member_that_gives_way_waits_for_others(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmgrd.member.standby.time.monotonic", lambda: 100.0)
    found = standby("", place, tmp_path, gives_way=True)
    free = FENCE._replace(is_held=False)
    assert found._why_now(free) == ""
    monkeypatch.setattr("qmgrd.member.standby.time.monotonic", lambda: 103.1)
    assert found._why_now(free) == "the session of nyc1 ended"


async def test_member_that_hangs_is_replaced(journal_url: str, tmp_path: Path) -> None:
    """Its session exists until the end of the takeover, and its epoch is over."""
    with connect(journal_url, "start") as control:
        place = open_place(control, "NYC")
        with connect(journal_url, "hangs") as hanging:
            seen = read_fence(hanging, place)
            claim(hanging, place, seen, "nyc1", "nyc1:7470", "test", is_forced=False)
            found = standby(journal_url, place, tmp_path)
            taken = await found.run()
        assert taken is not None
        assert taken.why.startswith("nyc1 appended nothing for 1.")
        fence = read_fence(control, place)
        assert (fence.epoch, fence.member, fence.is_held) == (taken.epoch, "nyc2", True)
        assert taken.since_us == fence.since_us
        taken.connection.close()


async def test_stop_ends_a_standby(journal_url: str, tmp_path: Path) -> None:
    with connect(journal_url, "start") as control:
        place = open_place(control, "NYC")
    found = standby(journal_url, place, tmp_path)
    found.stop()
    assert await found.run() is None
