"""Tests that peers are quarantined by origin and name, in limited number and for limited time."""

from qmgrd.net import quarantine
from qmgrd.net.quarantine import Quarantine


def test_peer_is_kept_out_for_a_while() -> None:
    peers = Quarantine(60_000)
    peers.add("10.0.0.1", "app", 1_000)
    assert peers.wait_ms("10.0.0.1", "app", 1_500) == 59_500
    assert peers.wait_ms("10.0.0.1", "app", 61_000) == 0
    assert len(peers) == 0


def test_stranger_with_the_same_name_does_not_keep_the_real_peer_out() -> None:
    peers = Quarantine(60_000)
    peers.add("10.6.6.6", "app", 0)
    assert peers.wait_ms("10.0.0.1", "app", 1) == 0
    assert peers.wait_ms("10.6.6.6", "other", 1) == 0


def test_peer_that_is_guilty_again_waits_from_then_on() -> None:
    peers = Quarantine(100)
    peers.add("a", "1", 0)
    peers.add("a", "2", 50)
    peers.add("a", "1", 60)
    assert peers.wait_ms("a", "1", 155) == 5
    assert len(peers) == 1  # Peers are stored in the order in which they may return.


def test_strangers_do_not_fill_the_memory() -> None:
    peers = Quarantine(60_000)
    for number in range(quarantine.PEERS_MAX + 10):
        peers.add("10.6.6.6", f"name {number}", 0)
    assert len(peers) == quarantine.PEERS_MAX
    assert peers.wait_ms("10.6.6.6", f"name {quarantine.PEERS_MAX + 9}", 1)


def test_peer_that_resumes_another_session_is_not_kept_out() -> None:
    peers = Quarantine(60_000)
    peers.add("unix", "app", 0, b"guilty")
    assert peers.wait_ms("unix", "app", 1, b"guilty") == 59_999
    assert peers.wait_ms("unix", "app", 1, b"other") == 0
    assert peers.wait_ms("unix", "app", 1) == 59_999
