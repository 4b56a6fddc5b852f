"""Tests that the daemon forgets unused producers. test_streams.py tests the consequences."""

from qmgr_protocol import messages as m
from qmgrd.core.jobs.retention import RETENTION_PERIOD_MS
from qmgrd.core.layout import keys
from tests.qmgrd.core.harness import Client, Manager


def test_job_counts_those_it_forgot_and_spares_those_in_use() -> None:
    manager = Manager(producer={"retention_ms": "1 min"})
    app = manager.connect()
    for number in range(3):
        left = manager.connect()
        left.producer(b"%016d" % number)
        if number:
            left.hang_up()
    manager.turn(RETENTION_PERIOD_MS)
    manager.rest()
    row = app.ask(m.JobList)["jobs"][0]
    assert (row["kind"], row["examined"], row["done"]) == ("retention", 3, 2)
    assert len(manager.scan(keys.SPACE_PRODUCER)) == 1
    assert app.ask(m.Status)["producers"] == 1


def test_it_begins_each_hour(app: Client) -> None:
    for _ in range(2):
        app.manager.turn(RETENTION_PERIOD_MS)
        app.manager.rest()
        kinds = [row["kind"] for row in app.ask(m.JobList)["jobs"]]
        assert kinds == ["retention", "origins"] * (len(kinds) // 2)
        assert kinds
