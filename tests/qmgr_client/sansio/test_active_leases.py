"""Tests of the leases of the application's messages: when they start and are renewed."""

import pytest

from qmgr_client.sansio.active_leases import START_AFTER_MS, ActiveLeases

LEASE_MS = 30_000


@pytest.fixture
def work() -> ActiveLeases:
    found = ActiveLeases(auto_renew=True)
    found.handed_over(b"a", 3, LEASE_MS, LEASE_MS, 0)
    return found


def test_lease_starts_once_and_goes_on(work: ActiveLeases) -> None:
    assert work.has_fresh
    assert work.start(START_AFTER_MS - 1) == []
    assert work.start(START_AFTER_MS) == [(3, b"a")]
    assert not work.has_fresh
    assert work.start(START_AFTER_MS) == []
    assert work.started() == [(3, b"a")]


def test_lease_without_auto_renew_is_forgotten_once_started() -> None:
    work = ActiveLeases(auto_renew=False)
    work.handed_over(b"a", 3, LEASE_MS, LEASE_MS, 0)
    assert work.start(START_AFTER_MS) == [(3, b"a")]
    assert work.started() == []


@pytest.mark.parametrize("lease_ms", [1_000, LEASE_MS])
def test_lease_with_little_time_left_starts_at_once(lease_ms: int) -> None:
    work = ActiveLeases(auto_renew=False)
    work.handed_over(b"a", 3, lease_ms, lease_ms, lease_ms // 2 + 1)
    assert work.start(lease_ms // 2 + 1) == [(3, b"a")]


def test_settled_is_not_renewed(work: ActiveLeases) -> None:
    work.forget(b"a")
    assert work.start(START_AFTER_MS) == []
    work.handed_over(b"b", 3, LEASE_MS, LEASE_MS, 0)
    work.start(START_AFTER_MS)
    work.forget(b"b")
    assert work.started() == []


def test_lost_connection_ends_all(work: ActiveLeases) -> None:
    work.handed_over(b"b", 3, LEASE_MS, LEASE_MS, 0)
    work.start(START_AFTER_MS)
    work.handed_over(b"c", 3, LEASE_MS, LEASE_MS, 0)
    work.clear()
    assert not work.has_fresh
    assert work.started() == []
