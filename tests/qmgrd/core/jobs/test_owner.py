"""A job keeps the rights of the user who began it."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.jobs.job import CANCELLABLE
from qmgrd.core.jobs.owner import LOOK_MS, NEEDS
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager, record

MANY = [b"x"] * 2_000  # more than a slice
MOVER = ("move queue Q", "put queue OLD")
DEAD = "SYSTEM.DEAD.LETTERS"


@pytest.fixture
def guarded(manager: Manager, app: Client) -> Guarded:
    app.ask(m.QueueCreate, "OLD")
    return Guarded(manager)


def test_each_job_that_users_start_has_needs() -> None:
    assert set(NEEDS) == set(CANCELLABLE)


@pytest.mark.parametrize("lost", MOVER)
@pytest.mark.parametrize("is_copy", [False, True])
def test_move_ends_when_a_right_is_revoked(guarded: Guarded, lost: str, is_copy: bool) -> None:
    bob = guarded.user("bob", *MOVER)
    guarded.owner.put("Q", *MANY)
    job = bob.ask(m.QueueMove, "Q", "OLD", "", 0, 0, is_copy)["job"]
    guarded.revoke("bob", lost)
    guarded.manager.rest()
    row = guarded.job(job)
    assert row["state"] == "failed"
    assert row["text"].startswith("NOT_AUTHORIZED: user bob may not do this")
    assert 0 < row["done"] < len(MANY)
    assert len(guarded.owner.bodies("OLD")) == row["done"]


def test_move_with_its_rights_is_done(guarded: Guarded) -> None:
    bob = guarded.user("bob", *MOVER)
    guarded.owner.put("Q", *MANY)
    job = bob.ask(m.QueueMove, "Q", "OLD")["job"]
    guarded.manager.rest()
    assert guarded.job(job)["done"] == len(MANY)


def test_purge_answers_that_a_right_was_revoked(guarded: Guarded) -> None:
    bob = guarded.user("bob", "purge queue Q")
    guarded.owner.put("Q", *MANY)
    request_id = bob.next_id()
    bob.say(m.QueuePurge(request_id, "Q"))
    guarded.revoke("bob", "purge queue Q")
    with pytest.raises(RequestError) as refused:
        bob.answer(request_id)
    assert refused.value.code == ErrorCode.NOT_AUTHORIZED
    assert 0 < guarded.manager.queue("Q").counters.depth < len(MANY)


def test_deleted_user_has_no_jobs(guarded: Guarded) -> None:
    bob = guarded.user("bob", *MOVER)
    guarded.owner.put("Q", *MANY)
    job = bob.ask(m.QueueMove, "Q", "OLD")["job"]
    guarded.owner.ask(m.UserDelete, "bob")
    guarded.manager.rest()
    assert guarded.job(job)["state"] == "failed"


def test_job_keeps_its_user_over_a_crash(guarded: Guarded) -> None:
    bob = guarded.user("bob", *MOVER)
    guarded.owner.put("Q", *MANY)
    job = bob.ask(m.QueueMove, "Q", "OLD", "", 0, 10)["job"]
    guarded.manager.crash()
    guarded.owner = guarded.manager.connect("owner again")
    guarded.revoke("bob", "move queue Q")
    guarded.manager.turn(1_000)
    guarded.manager.rest()
    assert guarded.job(job)["state"] == "failed"


def test_alias_that_leads_elsewhere_ends_a_move(guarded: Guarded) -> None:
    guarded.owner.ask(m.QueueCreate, "SECRET")
    guarded.owner.ask(m.QueueCreate, "NEW", {"alias_of": "OLD"})
    bob = guarded.user("bob", *MOVER)
    guarded.owner.put("Q", *MANY)
    job = bob.ask(m.QueueMove, "Q", "NEW")["job"]
    guarded.owner.ask(m.QueueAlter, "NEW", {"alias_of": "SECRET"})
    guarded.manager.rest()
    assert guarded.job(job)["state"] == "failed"
    assert guarded.owner.bodies("SECRET") == []


def test_job_without_a_user_may_do_everything(guarded: Guarded) -> None:
    guarded.owner.put("Q", *MANY)
    job = guarded.owner.ask(m.QueueMove, "Q", "OLD")["job"]
    guarded.manager.rest()
    assert guarded.job(job)["state"] == "done"


def bury(guarded: Guarded, queue: str, body: bytes) -> None:
    guarded.owner.put(queue, body)
    found = guarded.owner.get(queue)
    guarded.owner.settle(m.REJECT, *found)


def test_dead_letters_return_only_to_queues_on_which_the_user_may_put(guarded: Guarded) -> None:
    bury(guarded, "Q", b"1")
    bury(guarded, "OLD", b"2")
    bob = guarded.user("bob", f"move queue {DEAD}", "put queue OLD")
    job = bob.ask(m.QueueMove, DEAD, "")["job"]
    guarded.manager.rest()
    row = guarded.job(job)
    assert (row["state"], row["done"], row["skipped"], row["stayed"]) == ("done", 1, 1, 0)
    assert guarded.owner.bodies("OLD") == [b"2"]
    assert guarded.owner.bodies(DEAD) == [b"1"]


def test_republishing_ends_when_the_right_is_revoked(guarded: Guarded) -> None:
    guarded.owner.ask(m.Subscribe, "a", ":S")
    bob = guarded.user("bob", "republish subscription :S")
    job = bob.ask(m.Republish, True, b"", "", [":S"], 0, 0)["job"]
    guarded.manager.rest()
    assert guarded.job(job)["state"] == "done"
    bob.send(m.Republish(bob.next_id(), True, b"", "", [":S"], 0, 0))
    guarded.owner.say(guarded.revoking("bob", "republish subscription :S"))
    guarded.manager.rest()
    assert guarded.owner.ask(m.JobList)["jobs"][-1]["state"] == "failed"


# -- the rate of the user

RATE = 100


def begun(guarded: Guarded, kind: str) -> tuple[Client, int]:
    """Begins a job of bob, whose rate is limited, for 350 messages. Returns the job's number."""
    bob = guarded.user("bob", *MOVER, "put queue Q")
    guarded.owner.put("Q", *[b"x"] * 350)
    guarded.owner.ask(m.UserAlter, "bob", {"puts_per_s_max": RATE})
    return bob, bob.ask(m.QueueMove, "Q", "OLD", "", 0, 0, kind == "copy")["job"]


@pytest.mark.parametrize("kind", ["move", "copy"])
def test_job_puts_no_faster_than_its_user_may(guarded: Guarded, kind: str) -> None:
    _, job = begun(guarded, kind)
    manager = guarded.manager
    manager.rest()
    assert guarded.job(job)["done"] == RATE
    for seconds in (1, 2):
        for _ in range(10):
            manager.turn(100)
            manager.rest()
        assert RATE * seconds < guarded.job(job)["done"] <= RATE * (seconds + 1)
    assert guarded.job(job)["state"] == "running"
    for _ in range(10):
        manager.turn(100)
        manager.rest()
    assert (guarded.job(job)["done"], guarded.job(job)["state"]) == (350, "done")
    assert len(guarded.owner.bodies("OLD")) == 350


def test_puts_of_the_user_share_the_rate_with_its_jobs(guarded: Guarded) -> None:
    bob, _ = begun(guarded, "move")
    guarded.manager.rest()
    producer = bob.producer()
    bob.send(m.Put(producer.stream, 1, 0, "Q", [record(b"late")]))
    guarded.manager.rest()
    assert guarded.manager.turns.intake.waits_for_tokens(bob.peer.number)


def test_job_of_long_messages_is_limited_by_bytes(guarded: Guarded) -> None:
    bob = guarded.user("bob", *MOVER)
    guarded.owner.put("Q", *[bytes(1_000)] * 30)
    guarded.owner.ask(m.UserAlter, "bob", {"put_bytes_per_s_max": 5_000})
    job = bob.ask(m.QueueMove, "Q", "OLD")["job"]
    guarded.manager.rest()
    assert guarded.job(job)["done"] == 5
    guarded.owner.ask(m.UserAlter, "bob", {"put_bytes_per_s_max": 0})
    guarded.manager.turn(LOOK_MS)
    guarded.manager.rest()
    assert guarded.job(job)["done"] == 30


def test_job_of_a_user_without_a_rate_is_not_delayed(guarded: Guarded) -> None:
    guarded.user("eve", *MOVER)
    _, job = begun(guarded, "move")
    eve = guarded.manager.connect("eve", user="eve")
    other = eve.ask(m.QueueMove, "Q", "OLD")["job"]
    guarded.manager.rest()
    assert guarded.job(other)["state"] == "done"
    assert guarded.job(job)["done"] == RATE
