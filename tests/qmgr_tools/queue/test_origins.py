"""Tests of the table of origins, which qmctl reads in pages."""

import pytest

from qmgr_client.blocking import Outgoing, Uid, connect
from tests.qmgr_tools.conftest import Daemon, Qmctl

pytestmark = pytest.mark.process


def test_table_of_origins_is_shown_to_its_end(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    names = [f"O{number:04}" for number in range(1_003)]
    with connect(daemon.unix) as client:
        client.put_many(queue, [Outgoing(b"x", uid=Uid(name, 1)) for name in names])
    shown = qm("queue", "show", queue)
    assert (shown.code, shown.out.count("\nO0"), shown.out.count("\nO1")) == (0, 1_000, 0)
    show_all = f"qmctl queue show {queue} --all-origins"
    assert shown.err == f"only the first 1,000 origins are shown; to show all: {show_all}\n"
    page = qm("queue", "show", queue, "-o", "json").json
    assert (len(page["origins"]), page["origins_next"]) == (1_000, "O0999")
    every = qm("queue", "show", queue, "--all-origins", "-o", "json").json
    assert (list(every["origins"]), every["origins_next"]) == (names, None)
    assert qm("queue", "show", queue, "--all-origins").err == ""
