"""Tests of the time for peers to leave. test_daemon.py tests peers that read slowly."""

from typing import Any

import pytest

from qmgrd.net import farewell


class Peer:
    """A session with unread bytes."""

    def __init__(self, unread: int) -> None:
        self.unread = unread

    def unwritten_bytes(self) -> int:
        return self.unread


def clock(sessions: dict[int, Any], leaves_ms: int) -> Any:
    """Returns a clock that advances by 10 ms each time. All peers leave at *leaves_ms*."""
    now_ms = 0

    def tick() -> int:
        nonlocal now_ms
        now_ms += 10
        if now_ms > leaves_ms:
            sessions.clear()
        return now_ms

    return tick


@pytest.mark.parametrize(
    ("unread", "leaves_ms", "rounds"),
    [
        (0, 50, 6),
        (0, 10_000, farewell.LEAVE_MAX_MS // 10 + 2),
        (1, 10_000, farewell.DRAIN_MAX_MS // 10 + 1),
    ],
    ids=["peer leaves", "peer stays", "peer does not read"],
)
async def test_peers_have_time_to_read_and_to_leave(
    unread: int, leaves_ms: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farewell, "_LOOK_S", 0)
    sessions: dict[int, Any] = {1: Peer(unread)}
    tick = clock(sessions, leaves_ms)
    await farewell.wait_for_peers(sessions, tick)
    assert tick() == 10 * (rounds + 1)
