"""Tests that the daemon stays up, with limited memory, under a small crowd of hostile connections.

limits.buffers_max_bytes limits the memory, regardless of the number of connections. With the limits
set here, a crowd of 200 reaches every limit. `python -m tests.process.crowd` runs the full crowd.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process import crowd
from tests.process.daemon import Daemon

pytestmark = pytest.mark.process

CONNECTIONS = 200
SECONDS = 10.0
BUFFERS_MIB = 64
OVERHEAD_MIB = 48  # memory for connections, and for the output of one turn


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    limits = {"buffers_max_bytes": f"{BUFFERS_MIB} MiB"}
    daemon = Daemon(tmp_path / "data", listen={"tcp": ["127.0.0.1:0"]}, limits=limits)
    yield daemon
    daemon.close()


@pytest.mark.long
def test_crowd_neither_stops_nor_bloats_the_daemon(daemon: Daemon) -> None:
    found = crowd.run(daemon.start(), CONNECTIONS, SECONDS)
    assert found["memory_peak_mib"] < found["memory_before_mib"] + BUFFERS_MIB + OVERHEAD_MIB
    assert found["rounds"] > 20, found
    assert "door_max_ms" in found, found  # An operator could connect through the unix socket.
    # Each kind has reached its limit.
    assert set(found["ends"]) == {kind.__name__ for kind in crowd.KINDS}, found
    assert len(daemon.log) < 100, daemon.said
    assert not daemon.find("a turn failed")
    assert daemon.stop() == 0
