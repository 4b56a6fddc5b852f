"""Tests of the target of a job in a dry run. test_move.py and test_dlq.py test refusals."""

import pytest

from qmgr_client.blocking import connect
from qmgr_protocol.errors import RequestError
from qmgr_tools.cli import destination
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def test_source_is_the_queue_behind_an_alias(qm: Qmctl, daemon: Daemon, queue: str) -> None:
    qm("queue", "create", f"{queue}.ALIAS", "--alias-of", queue)
    with connect(daemon.unix) as client:
        assert destination.source(client, f"{queue}.ALIAS") == queue
        with pytest.raises(RequestError, match="does not exist here"):
            destination.source(client, f"{queue}.NONE")


def test_nothing_that_is_to_come_waits_for_nothing(qm: Qmctl, daemon: Daemon, queue: str) -> None:
    qm("queue", "create", f"{queue}.TO", "--depth-max", "1")
    qm("put", f"{queue}.TO", "x")
    with connect(daemon.unix) as client:
        assert destination.waits(client, queue, f"{queue}.TO", 0) == ""
        assert destination.waits(client, queue, f"{queue}.TO", 1).endswith("the job would wait")
