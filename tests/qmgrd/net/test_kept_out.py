"""Peers that are kept out: by origin and name, for a while, a bounded number of them."""

from qmgrd.net import kept_out
from qmgrd.net.kept_out import KeptOut


def test_peer_is_kept_out_for_a_while() -> None:
    kept = KeptOut(60_000)
    kept.add("10.0.0.1", "app", 1_000)
    assert kept.wait_ms("10.0.0.1", "app", 1_500) == 59_500
    assert kept.wait_ms("10.0.0.1", "app", 61_000) == 0
    assert len(kept) == 0


def test_stranger_with_the_same_name_does_not_keep_the_real_peer_out() -> None:
    kept = KeptOut(60_000)
    kept.add("10.6.6.6", "app", 0)
    assert kept.wait_ms("10.0.0.1", "app", 1) == 0
    assert kept.wait_ms("10.6.6.6", "other", 1) == 0


def test_peer_that_is_guilty_again_waits_from_then_on() -> None:
    kept = KeptOut(100)
    kept.add("a", "1", 0)
    kept.add("a", "2", 50)
    kept.add("a", "1", 60)
    assert kept.wait_ms("a", "1", 155) == 5
    assert len(kept) == 1  # The order is still that in which they may come back.


def test_strangers_do_not_fill_the_memory() -> None:
    kept = KeptOut(60_000)
    for number in range(kept_out.PEERS_MAX + 10):
        kept.add("10.6.6.6", f"name {number}", 0)
    assert len(kept) == kept_out.PEERS_MAX
    assert kept.wait_ms("10.6.6.6", f"name {kept_out.PEERS_MAX + 9}", 1)


def test_peer_that_resumes_another_session_is_not_kept_out() -> None:
    kept = KeptOut(60_000)
    kept.add("unix", "app", 0, b"guilty")
    assert kept.wait_ms("unix", "app", 1, b"guilty") == 59_999
    assert kept.wait_ms("unix", "app", 1, b"other") == 0
    assert kept.wait_ms("unix", "app", 1) == 59_999
