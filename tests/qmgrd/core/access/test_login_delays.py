"""Delays after failed logins."""

import pytest

from qmgrd.core.access import login_delays
from qmgrd.core.access.login_delays import (
    DELAY_MAX_MS,
    DELAY_MIN_MS,
    FORGET_MS,
    FREE_FAILURES,
    TRACKED_MAX,
    USERS_MAX,
    LoginDelays,
    source_of,
)


def failed(count: int, now_ms: int = 0) -> LoginDelays:
    delays = LoginDelays()
    for _ in range(count):
        delays.failed("10.0.0.1", "app", now_ms)
    return delays


def test_first_failures_are_not_delayed() -> None:
    assert failed(FREE_FAILURES - 1).wait_ms("10.0.0.1", "app", 0) == 0
    assert failed(FREE_FAILURES).wait_ms("10.0.0.1", "app", 0) == DELAY_MIN_MS


def test_delay_doubles_up_to_its_limit() -> None:
    waits = [failed(FREE_FAILURES + more).wait_ms("10.0.0.1", "app", 0) for more in range(100)]
    assert waits[:4] == [DELAY_MIN_MS, 2 * DELAY_MIN_MS, 4 * DELAY_MIN_MS, 8 * DELAY_MIN_MS]
    assert max(waits) == waits[-1] == DELAY_MAX_MS


def test_delay_ends_with_time() -> None:
    delays = failed(FREE_FAILURES, 1_000)
    assert delays.wait_ms("10.0.0.1", "app", 1_400) == DELAY_MIN_MS - 400
    assert delays.wait_ms("10.0.0.1", "app", 1_000 + DELAY_MIN_MS) == 0


def test_other_addresses_and_other_users_are_not_delayed() -> None:
    delays = failed(50)
    assert delays.wait_ms("10.0.0.2", "app", 0) == 0
    assert delays.wait_ms("10.0.0.1", "other", 0) == 0


def test_success_forgets_the_failures_of_clients_with_a_session() -> None:
    here, there = (source_of(address, b"s" * 16) for address in ("10.0.0.1", "10.0.0.2"))
    delays = LoginDelays()
    for _ in range(FREE_FAILURES):
        delays.failed(here, "app", 0)
    delays.succeeded(there, "app")
    delays.succeeded(here, "other")
    assert delays.wait_ms(here, "app", 0) > 0
    delays.succeeded(here, "app")
    assert delays.wait_ms(here, "app", 0) == 0
    delays.failed(here, "app", 0)
    assert delays.wait_ms(here, "app", 0) == 0


def test_success_forgets_no_failures_of_strangers_at_the_same_address() -> None:
    """Otherwise, a stranger has more guesses after each login, and learns that the user exists."""
    delays = failed(FREE_FAILURES - 1)
    delays.succeeded("10.0.0.1", "app")
    delays.failed("10.0.0.1", "app", 0)
    assert delays.wait_ms("10.0.0.1", "app", 0) == DELAY_MIN_MS


def test_old_failures_are_forgotten() -> None:
    delays = failed(50)
    delays.failed("10.0.0.1", "other", FORGET_MS)
    delays.failed("10.0.0.1", "app", FORGET_MS)
    assert delays.wait_ms("10.0.0.1", "app", FORGET_MS) == 0


def test_strangers_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failures that are kept are the latest ones."""
    monkeypatch.setattr(login_delays, "TRACKED_MAX", 10)
    delays = failed(FREE_FAILURES)
    for number in range(9):
        delays.failed("10.0.0.1", f"user{number}", 0)
    assert delays.wait_ms("10.0.0.1", "app", 0) > 0
    delays.failed("10.0.0.1", "app", 0)
    for number in range(9):
        delays.failed("10.0.0.2", f"user{number}", 0)
    assert delays.wait_ms("10.0.0.1", "app", 0) > 0
    assert len(delays._failures) == 10
    delays.failed("10.0.0.2", "user9", 0)
    assert delays.wait_ms("10.0.0.1", "app", 0) == 0


def test_invented_users_do_not_replace_the_failures_of_a_user() -> None:
    delays = failed(FREE_FAILURES)
    for number in range(TRACKED_MAX):
        delays.failed("10.0.0.1", f"user{number}", 1)
    assert delays.wait_ms("10.0.0.1", "app", 1) == DELAY_MIN_MS - 1
    assert len(delays._failures) == USERS_MAX + 1


def test_further_users_at_a_source_are_delayed_together() -> None:
    delays = LoginDelays()
    for number in range(USERS_MAX + FREE_FAILURES):
        assert delays.wait_ms("10.0.0.1", "app", 0) == 0
        delays.failed("10.0.0.1", f"user{number}", 0)
    assert delays.wait_ms("10.0.0.1", "app", 0) == DELAY_MIN_MS
    assert delays.wait_ms("10.0.0.1", "user0", 0) == 0
    assert delays.wait_ms("10.0.0.2", "app", 0) == 0
    delays.succeeded("10.0.0.1", "app")
    assert delays.wait_ms("10.0.0.1", "app", 0) == DELAY_MIN_MS


def test_source_has_counts_for_new_users_after_old_ones_are_forgotten() -> None:
    delays = LoginDelays()
    for number in range(USERS_MAX + FREE_FAILURES):
        delays.failed("10.0.0.1", f"user{number}", 0)
    delays.failed("10.0.0.1", "app", FORGET_MS)
    assert list(delays._failures) == [("10.0.0.1", "app")]
    assert delays._counts == {"10.0.0.1": 1}


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("127.0.0.1", "loopback"),
        ("127.9.8.7", "loopback"),
        ("::ffff:127.0.0.2", "loopback"),
        ("::1", "loopback"),
        ("unix", "unix"),
    ],
)
def test_source_is_the_host(address: str, source: str) -> None:
    assert source_of(address, b"") == source


def test_all_sessions_at_an_address_are_one_source() -> None:
    """Otherwise, each old session would allow further guesses."""
    source = source_of("10.0.0.1", b"s" * 16)
    assert source == source_of("10.0.0.1", b"t" * 16)
    assert source not in (source_of("10.0.0.1", b""), source_of("10.0.0.2", b"s" * 16))
