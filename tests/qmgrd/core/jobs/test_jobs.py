"""Tests of the scheduler of jobs: the order of slices, the ended jobs kept, and the limits."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import FLAG_RETAINED
from qmgrd.core.jobs import jobs
from qmgrd.core.jobs.job import CANCELLABLE, KINDS
from qmgrd.core.jobs.jobs import SLICE_COST_ROWS
from qmgrd.core.jobs.retention import RETENTION_PERIOD_MS
from qmgrd.core.layout import keys
from qmgrd.core.queue import selection
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import AnyStore, Client, Manager


def test_each_job_has_a_slice_in_rotation(app: Client) -> None:
    for name in ("A", "B"):
        app.ask(m.QueueCreate, name)
        app.put(name, *[b"x"] * 900)
        app.send(m.QueuePurge(app.next_id(), name))
    app.manager.turn()
    app.manager.turn()
    assert [app.manager.queue(name).counters.depth < 900 for name in ("A", "B")] == [True, True]
    app.manager.rest()


def test_jobs_that_ended_are_kept_for_an_hour_over_a_restart(store: AnyStore, app: Client) -> None:
    app.put("Q", b"x")
    app.ask(m.QueuePurge, "Q")
    (row,) = app.ask(m.JobList)["jobs"]
    assert (row["kind"], row["state"], row["done"], row["queue"]) == ("purge", "done", 1, "Q")
    app.manager.restart()
    app = app.manager.connect()
    assert app.ask(m.JobList)["jobs"] == [row]
    assert app.ask(m.JobShow, row["job"]) == row
    assert app.ask(m.Status)["jobs"] == 0
    app.manager.turn(RETENTION_PERIOD_MS)
    app.manager.rest()
    retention, origins = app.ask(m.JobList)["jobs"]
    assert retention["kind"] == "retention"
    assert app.code_of(m.JobShow, row["job"]) is ErrorCode.JOB_UNKNOWN
    assert origins["kind"] == "origins"
    assert len(app.manager.scan(keys.SPACE_JOB)) == 2


def test_number_of_kept_ended_jobs_is_limited(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "ENDED_MAX", 3)
    for _ in range(5):
        app.ask(m.QueuePurge, "Q")
    kept = [row["job"] for row in app.ask(m.JobList)["jobs"]]
    assert len(kept) == 3
    app.ask(m.QueuePurge, "Q")
    assert [row["job"] for row in app.ask(m.JobList)["jobs"]][:2] == kept[1:]
    assert len(app.manager.scan(keys.SPACE_JOB)) == 3


def test_number_of_running_jobs_is_limited(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "RUNNING_MAX", 2)
    app.ask(m.QueueCreate, "FULL", {"put_inhibit": True})
    app.put("Q", b"x")
    rows = [app.ask(m.QueueMove, "Q", "FULL") for _ in range(2)]
    assert app.code_of(m.QueueMove, "Q", "FULL") is ErrorCode.JOBS_EXHAUSTED
    assert app.code_of(m.QueuePurge, "Q") is ErrorCode.JOBS_EXHAUSTED
    assert app.bodies("Q") == [b"x"]
    app.manager.crash()
    app = app.manager.connect()
    assert app.code_of(m.QueuePurge, "Q") is ErrorCode.JOBS_EXHAUSTED
    app.ask(m.JobCancel, rows[0]["job"])
    assert app.ask(m.QueuePurge, "Q") == {"messages": 1}
    assert app.ask(m.QueueDelete, "FULL", True) == {"messages": 0}


def test_number_of_deletions_has_its_own_limit(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "RUNNING_MAX", 2)
    names = ["A", "B", "C", "D"]
    for name in names:
        app.ask(m.QueueCreate, name)
    requests = [m.QueueDelete(app.next_id(), name, True) for name in names]
    purge = m.QueuePurge(app.next_id(), "Q")
    app.send(*requests, purge)
    app.manager.rest()
    answers = {x.request_id: x for x in app.hear()}
    kinds = [type(answers[x.request_id]) for x in requests]
    assert kinds == [m.Ok, m.Ok, m.Error, m.Error]
    assert answers[requests[2].request_id].code == ErrorCode.JOBS_EXHAUSTED
    assert answers[purge.request_id] == m.Ok(purge.request_id, {"messages": 0})
    assert app.ask(m.QueueDelete, "C", True) == {"messages": 0}


def test_no_user_can_have_all_jobs(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "RUNNING_MAX", 8)
    guarded = Guarded(manager)
    guarded.owner.ask(m.QueueCreate, "FULL", {"put_inhibit": True})
    guarded.owner.ask(m.QueueCreate, "Q")
    guarded.owner.put("Q", b"x")
    counts: list[int] = []
    for name in ("ann", "bob", "cid", "dee"):
        user = guarded.user(name, "move queue Q", "put queue FULL")
        refused: list[str] = []
        while not refused:
            try:
                user.ask(m.QueueMove, "Q", "FULL")
            except RequestError as error:
                refused.append(str(error))
        counts.append(len(manager.turns.broker.jobs.running) - sum(counts))
        assert refused[0].startswith(f"JOBS_EXHAUSTED: user {name} has ") == (sum(counts) < 8)
    assert counts == [4, 2, 1, 1]
    manager.crash()
    admin = manager.connect("admin", user="admin")
    assert admin.code_of(m.QueuePurge, "FULL") is ErrorCode.JOBS_EXHAUSTED
    first = admin.ask(m.JobList)["jobs"][0]["job"]
    admin.ask(m.JobCancel, first)
    assert admin.ask(m.QueuePurge, "FULL") == {"messages": 0}


def test_jobs_of_new_subscriptions_leave_room_for_operators(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "RUNNING_MAX", 2)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("/t", b"x", flags=FLAG_RETAINED)
    subscribe = [m.Subscribe(app.next_id(), "t", f"A:{n}", retained=True) for n in range(5)]
    purge = m.QueuePurge(app.next_id(), "Q")
    app.send(*subscribe, purge)
    app.manager.turn()
    app.manager.rest()
    answers = {x.request_id: x for x in app.hear()}
    assert answers[purge.request_id] == m.Ok(purge.request_id, {"messages": 0})
    assert len(answers) == 6


def test_cancelled_job_stays_where_it_stood(store: AnyStore, app: Client) -> None:
    app.ask(m.QueueCreate, "OLD", {"depth_max": 2})
    app.put("Q", *[b"x"] * 5)
    job = app.ask(m.QueueMove, "Q", "OLD")["job"]
    app.manager.rest()
    row = app.ask(m.JobCancel, job)
    assert (row["state"], row["done"]) == ("cancelled", 2)
    assert row["ended_us"] >= row["started_us"]
    assert app.ask(m.JobCancel, job) == row
    app.ack(*app.get("OLD", 2))
    app.manager.turn(5_000)
    assert app.show("Q")["depth"] == 3
    app.manager.crash()
    app.manager.rest()
    assert app.manager.connect().show("Q")["depth"] == 3


@pytest.mark.parametrize("kind", sorted(set(KINDS) - set(CANCELLABLE)))
def test_own_jobs_of_the_queue_manager_cannot_be_cancelled(manager: Manager, kind: str) -> None:
    app = manager.connect()
    job = manager.turns.broker.jobs
    app.send(m.Status(app.next_id()))

    def begin(broker: object) -> None:
        job.start(kind, first=0)

    manager.turns.intake.event(0, begin)
    manager.turn()
    row = app.ask(m.JobList)["jobs"][0]
    assert row["kind"] == kind
    assert app.code_of(m.JobCancel, row["job"]) is ErrorCode.VALUE_INVALID


def test_deletion_is_listed_too(app: Client) -> None:
    app.put("Q", *[b"x"] * 3)
    app.ask(m.QueueDelete, "Q", True)
    app.manager.rest()
    (row,) = app.ask(m.JobList)["jobs"]
    assert (row["kind"], row["queue"], row["total"], row["done"]) == ("drop", "Q", 3, 3)


@pytest.mark.parametrize("kind", [m.JobShow, m.JobCancel])
def test_missing_job_is_unknown(app: Client, kind: type) -> None:
    assert app.code_of(kind, 12_345) is ErrorCode.JOB_UNKNOWN


def test_waiting_jobs_check_one_message_each_and_compile_nothing(app: Client) -> None:
    """The checks take several turns each second, for any number of jobs and messages."""
    app.ask(m.QueueCreate, "FULL", {"depth_max": 1})
    app.put("FULL", b"x")
    app.put("Q", *[b"x"] * 900)
    context = app.manager.turns.broker.context
    count = selection.compiled.cache_info().maxsize or 0
    for number in range(count + 100):
        app.ask(m.QueueMove, "Q", "FULL", f"priority >= 0 OR {number} > {'0' * 3_000}")
    app.manager.rest()
    compiled = selection.compiled.cache_info()
    before = [job.row["cursor"] for job in app.manager.turns.broker.jobs.running.values()]
    rows, turns = 0, 0
    app.manager.advance(1_000)
    while app.manager.turns.has_work or not turns:
        app.manager.turn()
        assert context.rows < context.turn_rows + 100
        rows, turns = rows + context.rows, turns + 1
    assert selection.compiled.cache_info() == compiled
    assert (count + 100) * SLICE_COST_ROWS < rows < (count + 100) * (SLICE_COST_ROWS + 5)
    assert [job.row["cursor"] for job in app.manager.turns.broker.jobs.running.values()] == before


def test_turn_looks_at_no_more_jobs_than_it_has_rows_for(store: AnyStore) -> None:
    app = Manager(store, limits={"turn_rows": 5 * SLICE_COST_ROWS}).connect()
    app.ask(m.QueueCreate, "Q")
    app.ask(m.QueueCreate, "FULL", {"put_inhibit": True})
    app.put("Q", b"x")
    for _ in range(20):
        app.ask(m.QueueMove, "Q", "FULL")
    app.manager.rest()
    app.manager.advance(1_000)
    app.manager.turn()
    assert app.manager.turns.has_work
    assert app.manager.rest() >= 2


def test_job_that_ended_keeps_no_selector(app: Client) -> None:
    app.put("Q", b"x")
    app.ask(m.QueuePurge, "Q", "priority = 3")
    (job,) = app.manager.turns.broker.jobs.all()
    assert (job.row["state"], job.wanted) == ("done", None)


def test_what_waits_has_no_turn_until_its_time(app: Client) -> None:
    app.ask(m.QueueCreate, "FULL", {"put_inhibit": True})
    app.put("Q", b"x")
    job = app.ask(m.QueueMove, "Q", "FULL")["job"]
    app.manager.rest()
    assert not app.manager.turns.has_work
    app.ask(m.JobCancel, job)
    app.manager.turn(1_000)
    assert not app.manager.turns.has_work


def test_republish_does_not_use_the_wall_clock(app: Client) -> None:
    """C14: Messages parked earlier still count as earlier if the wall clock was set back."""
    app.ask(m.Subscribe, "t", ":s", "", {"redelivery_limit": 0})
    app.put("/t", b"x")
    app.release(*app.get(":s"))
    app.manager.wall_us -= 3_600_000_000
    app.consume(":s")
    app.ask(m.Republish)
    assert app.ask(m.RepublishList)["parked"] == []
