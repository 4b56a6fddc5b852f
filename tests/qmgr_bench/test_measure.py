import pytest

from qmgr_bench.measure import Work, measure
from qmgr_tools.cli.failure import Exit, Failure
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def work(queue: str) -> Work:
    return Work("get", queue, size=10, priority=4, same=True, count=50, consumers=1, prefetch=8)


def test_messages_of_somebody_are_not_eaten(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    qm("put", queue, "precious")
    with pytest.raises(Failure, match="it holds 1 message") as refusal:
        measure(daemon.unix, work(queue))
    assert refusal.value.exit_code is Exit.REFUSED
    assert qm("get", queue, "--body-only").out == "precious"


def test_existing_queue_is_kept_and_is_empty(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    before_ms = qm("status", "-o", "json").json["cpu_ms"]
    row = measure(daemon.unix, work(queue))
    used_ms = qm("status", "-o", "json").json["cpu_ms"] - before_ms
    assert (row["messages"], row["put"]) == (50, None)
    # The time before the measurement is not included.
    assert row["daemon_cpu_us"] * 50 / 1_000 <= used_ms + 1
    shown = qm("queue", "show", queue, "-o", "json").json
    assert (shown["depth"], shown["acked"]) == (0, 50)


def test_queue_that_leads_elsewhere_is_refused(own_daemon: Daemon, qmctl: Qmctl) -> None:
    at = ["-c", own_daemon.unix]
    qmctl(*at, "link", "create", "NYC", "h:1", "--stopped")
    qmctl(*at, "queue", "create", "Q@NYC")
    with pytest.raises(Failure, match="it is a remote queue"):
        measure(own_daemon.unix, work("Q@NYC"))
    with pytest.raises(Failure, match="it is a transmission queue"):
        measure(own_daemon.unix, work("@NYC"))
