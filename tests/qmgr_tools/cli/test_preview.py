"""Tests of the output of --dry-run, which shows the messages that a command would affect."""

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.cli.preview import SHOWN, preview
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


@pytest.mark.parametrize("where", ["", "size = 1"])
def test_those_that_are_leased_are_counted_apart(
    where: str, qm: Qmctl, daemon: Daemon, queue: str
) -> None:
    qm("put", queue, "--lines", stdin=b"x\n" * 9)
    with connect(daemon.unix) as client:
        held = client.get_many(queue, 2)
        found = preview(client, queue, where)
        assert (found.messages, found.leased) == (7, 2)
        assert all(not message.leased for message in found.first)
        assert 0 < len(found.first) <= SHOWN
        assert preview(client, queue, where, 3).messages == 3
        for message in held:
            client.release(message)
