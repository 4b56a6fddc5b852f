import socket
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.process.failure import report_failure
from qmgrd.process.notify import Notifier
from qmgrd.store.log import Fenced


@pytest.mark.parametrize(
    ("error", "level", "sent"),
    [
        (StoreFailed("disk full"), "error", "STOPPING=1\nSTATUS=failed: disk full"),
        (Fenced("nyc2 is active"), "warning", "STATUS=not active any more: nyc2 is active"),
    ],
)
def test_process_ends_unless_another_member_is_active(
    error: StoreFailed, level: str, sent: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        notifier = Notifier({"NOTIFY_SOCKET": path})
        with capture_logs() as logged:
            report_failure(error, notifier)
        notifier.close()
        assert manager.recv(1_000).decode() == sent
    assert [line["log_level"] for line in logged] == [level]
