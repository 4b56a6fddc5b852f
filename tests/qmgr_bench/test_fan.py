from contextlib import ExitStack
from pathlib import Path

import pytest

from qmgr_bench.fan import FANS, Fan
from qmgr_bench.load import Load, Plan
from qmgr_bench.qmgr import bodies


def test_names_differ() -> None:
    assert len({fan.name for fan in FANS}) == len(FANS)


@pytest.mark.process
@pytest.mark.parametrize("fan", FANS, ids=lambda fan: fan.name)
def test_each_subscriber_has_each_publication(fan: Fan, tmp_path: Path) -> None:
    """The test is skipped if the peer is not installed."""
    if fan.version() is None:
        pytest.skip("the peer is not installed")
    try:
        fan.start(tmp_path, 3)
        with ExitStack() as stack:
            sender = fan.sender(bodies(100, vary=True))
            stack.enter_context(sender.sock)
            receivers = fan.receivers(16, 100)
            for receiver in receivers:
                stack.enter_context(receiver.sock)
            outcome = Load(Plan(8, 60, 40, copies=3), [sender], *receivers).run()
        assert (outcome.messages, outcome.put.count) == (120, 40)
        assert fan.cpu_s() >= 0  # The processor time has a resolution of 10 ms.
    finally:
        fan.stop()
