"""Tests that a full queue evicts its oldest messages, if its policy requests this (G13)."""

import json
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid
from qmgrd.core.catalogue.system import DEAD_LETTERS, EVENTS
from qmgrd.core.context.eviction import STUCK_MAX
from qmgrd.core.returns.dead_letters import DeadLetters
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.harness import AnyStore, Client, record
from tests.qmgrd.core.unit_of_work import UnitOfWork, settle

DISCARD = {"overflow": "discard-oldest"}
BURY = {"overflow": "dead-letter-oldest"}


def test_full_queue_refuses_unless_told_otherwise_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"depth_max": 2})
    found = app.put_records("Q", *[record(b"%d" % i) for i in range(3)])
    assert [(x.seq_id, x.code) for x in found] == [(3, ErrorCode.QUEUE_FULL)]
    assert app.bodies("Q") == [b"0", b"1"]


def test_oldest_is_discarded_G13(store: AnyStore, app: Client) -> None:
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 3})
    app.put("Q", bytes(9_000), b"1", b"2")
    app.put("Q", b"3", b"4")
    assert app.bodies("Q") == [b"2", b"3", b"4"]
    assert app.show("Q")["purged"] == 2


def test_oldest_becomes_a_dead_letter_G13(store: AnyStore, app: Client) -> None:
    app.ask(m.QueueAlter, "Q", BURY | {"depth_max": 2})
    app.put("Q", b"1", b"2")
    app.put("Q", b"3")
    assert app.bodies("Q") == [b"2", b"3"]
    assert app.bodies(DEAD_LETTERS) == [b"1"]
    assert app.show("Q")["dead"] == 1


def test_lowest_priority_is_evicted_first_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 3})
    app.put("Q", b"high", priority=9)
    app.put("Q", b"low1", b"low2", priority=1)
    app.put("Q", b"new", priority=4)
    assert app.bodies("Q") == [b"high", b"new", b"low2"]


def test_delayed_messages_are_evicted_last_and_leased_ones_never_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 3})
    app.put("Q", b"delayed", delay_ms=1_000)
    app.put("Q", b"leased", b"free")
    (held,) = app.get("Q")
    app.put("Q", b"new")
    assert app.bodies("Q") == [b"leased", b"new"]
    app.get("Q")
    app.put("Q", b"newest")
    assert app.show("Q")["delayed"] == 0
    app.get("Q")
    (refused,) = app.put_records("Q", record(b"none has room"))
    assert refused.code is ErrorCode.QUEUE_FULL
    assert app.ack(held) == []


def test_delayed_message_becomes_a_dead_letter_if_no_other_is_left_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", BURY | {"depth_max": 2})
    app.put("Q", b"worth more", delay_ms=1_000, priority=5)
    app.put("Q", b"1", delay_ms=1_000)
    app.put("Q", b"2", delay_ms=1_000)
    app.put("Q", b"3")
    assert app.bodies(DEAD_LETTERS) == [b"1", b"2"]
    assert (app.bodies("Q"), app.show("Q")["delayed"]) == ([b"3"], 1)
    audit(app.manager)


def test_room_in_bytes_is_made_too_G13(app: Client) -> None:
    """The UIDs that the new messages receive count towards the size."""
    app.ask(m.QueueAlter, "Q", DISCARD | {"bytes_max": 10_000})
    for _ in range(20):
        app.put("Q", *[bytes(900)] * 3)
    assert app.show("Q")["depth"] == 10
    assert app.show("Q")["bytes"] <= 10_000


def test_message_without_a_place_among_the_dead_letters_stays_G13(app: Client) -> None:
    app.ask(m.QueueAlter, DEAD_LETTERS, {"depth_max": 1})
    app.ask(m.QueueAlter, "Q", BURY | {"depth_max": 1})
    app.put("Q", b"1")
    app.put("Q", b"2")
    (refused,) = app.put_records("Q", record(b"3"))
    assert refused.code is ErrorCode.QUEUE_FULL
    assert (app.bodies("Q"), app.bodies(DEAD_LETTERS)) == ([b"2"], [b"1"])


def test_message_without_a_place_among_the_dead_letters_is_passed_over_G13(app: Client) -> None:
    """In an earlier version, an equal UID among the dead letters led to errors.

    A put was refused, and a commit exceeded the depth.
    """
    uid = Uid("APP", 1)
    app.ask(m.QueueCreate, "OTHER")
    app.put_records("OTHER", record(b"dead", uid=uid))
    assert settle(app, m.REJECT, *app.get("OTHER")) == []
    app.ask(m.QueueAlter, "Q", BURY | {"depth_max": 3})
    app.put_records("Q", record(b"stuck", uid=uid), record(b"1"), record(b"2"))
    assert app.put_records("Q", record(b"3")) == []
    unit = UnitOfWork(app)
    unit.put("Q", b"4")
    unit.commit()
    assert app.bodies("Q") == [b"stuck", b"3", b"4"]
    assert app.bodies(DEAD_LETTERS) == [b"dead", b"1", b"2"]
    audit(app.manager)


def test_only_a_few_are_tried_if_the_dead_letter_queue_is_full(
    app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    make_dead_letter = DeadLetters.make_dead_letter

    def counted(self: DeadLetters, *arguments: Any) -> str:
        tried.append(1)
        return make_dead_letter(self, *arguments)

    monkeypatch.setattr(DeadLetters, "make_dead_letter", counted)
    app.ask(m.QueueAlter, DEAD_LETTERS, {"depth_max": 1})
    app.manager.fill(DEAD_LETTERS, record(b"full"))
    app.put("Q", *[b"x"] * 60)
    app.ask(m.QueueAlter, "Q", BURY | {"depth_max": 20})
    (refused,) = app.put_records("Q", record(b"1"))
    assert (refused.code, len(tried)) == (ErrorCode.QUEUE_FULL, STUCK_MAX)


def test_message_lost_at_a_restart_frees_no_space(app: Client) -> None:
    """The message no longer counts towards the depth, although its row still exists."""
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 2})
    app.put("Q", b"v1", b"v2", flags=records.FLAG_NOT_PERSISTENT)
    manager = app.manager
    manager.crash()
    manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app = manager.connect()
    app.put("Q", b"1", b"2")
    app.put("Q", b"3")
    assert app.bodies("Q") == [b"2", b"3"]
    audit(manager)


def test_link_put_evicts_on_its_target_queue_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 2})
    far = Far(app.manager)
    far.open()
    for number in range(1, 5):
        far.send(number, record(b"%d" % number, uid=("FAR", number)))
    assert app.bodies("Q") == [b"3", b"4"]


@pytest.mark.parametrize("count", [1, 5])
def test_operators_learn_how_many_were_evicted(app: Client, count: int) -> None:
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 10})
    app.put("Q", *[b"x"] * 10)
    app.put("Q", *[b"y"] * count)
    (event,) = (json.loads(body) for body in app.bodies(EVENTS))
    assert (event["event"], event["queue"], event["count"]) == ("queue overflowed", "Q", count)


def test_eviction_skips_leased_messages_before_the_position(app: Client) -> None:
    """Otherwise, each put to a queue with thousands of leases would scan all of them."""
    app.ask(m.QueueAlter, "Q", DISCARD | {"depth_max": 3_000})
    app.put("Q", *[b"x"] * 3_000)
    app.get("Q", 2_500)
    scanned = 0
    store = app.manager.store
    scan = store.scan

    def counting(start: bytes, stop: bytes):  # type: ignore[no-untyped-def]
        nonlocal scanned
        for row in scan(start, stop):
            scanned += 1
            yield row

    store.scan = counting
    app.put("Q", b"new")
    store.scan = scan
    assert scanned < 50
