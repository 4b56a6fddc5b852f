from pathlib import Path

import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.own.link import QUEUE
from qmgr_bench.pair import Pull, pair, wait_until


def test_processor_time_is_that_of_both() -> None:
    assert Pull(1, 7.25, 8.5).cpu_us == 15.75


def test_wait_ends_and_says_what_did_not_come() -> None:
    answers = [True, False, False]
    wait_until(lambda: answers.pop(), "never")
    assert answers == []
    with pytest.raises(LoadFailed, match="no consumer after 0 s"):
        wait_until(lambda: False, "no consumer", 0)


@pytest.mark.process
def test_backlog_is_pulled_over_any_number_of_connections(tmp_path: Path) -> None:
    with pair(tmp_path, {"QMGRD_LINK__COMMIT_MESSAGES": "50"}) as ends:
        for connections in (1, 4):
            ends.lead(ends.to.address, connections)
            pull = ends.pull(2_000, 64, lambda words: None)
            assert min(pull.messages_per_second, pull.from_cpu_us, pull.to_cpu_us) > 0
            assert ends.to.depth(QUEUE) == ends.show()["waiting"] == 0
            assert ends.show()["state"] == "stopped"
        with ends.started(4):
            assert ends.show()["state"] == "up"
