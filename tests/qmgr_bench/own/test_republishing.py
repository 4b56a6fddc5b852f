from pathlib import Path

import pytest

from qmgr_bench.own.republishing import FAILING, LIMIT, republishing
from qmgr_bench.setting import Setting


@pytest.mark.process
def test_republish_goes_to_those_that_failed_and_publishing_again_to_all(tmp_path: Path) -> None:
    """C4, C6, C7, C11, C21: the test counts the deliveries to the subscribers."""
    once, again = republishing(Setting(tmp_path, 0.1, 1, 0.05))
    assert (once.way, once.subscribers, once.failing) == ("republish", 50, FAILING)
    for found in (once, again):
        assert (found.redeliveries, found.listed) == (FAILING * LIMIT, FAILING)
        assert (found.lacking, found.left) == (0, 0)
        assert min(found.ms, found.cpu_ms) > 0
    assert (once.copies, once.duplicates) == (FAILING, 0)
    assert (again.copies, again.duplicates) == (50, 50 - FAILING)
