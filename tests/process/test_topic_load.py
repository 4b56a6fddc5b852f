"""Tests of topics on a real daemon that is killed with -9, with a check of the deliveries."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from qmgr_client.message import Message
from qmgr_protocol.messages import STATE_REPUBLISHED
from qmgr_protocol.record import Uid
from tests.process import broken
from tests.process.daemon import Daemon
from tests.process.topic_load import FAIL_EVERY, FAILS, TopicLoad

Make = Callable[..., Daemon]
ENOUGH = 200  # number of publications before a kill


async def worked(
    load: TopicLoad, daemon: Daemon, is_enough: Callable[[], object], *, kills: int = 0
) -> None:
    """Publishes and consumes on a daemon, with *kills* kills, until *is_enough* returns true."""
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(load.run())
        for kill in range(kills + 1):
            while len(load.acknowledged) < ENOUGH * (kill + 1):
                await asyncio.sleep(0.01)
                assert not work.done()
            if kill < kills:
                await asyncio.to_thread(daemon.kill)
                await asyncio.to_thread(daemon.start)
        while not is_enough():
            await asyncio.sleep(0.01)
            assert not work.done()
        load.stopping.set()


@pytest.mark.long
@pytest.mark.process
def test_each_subscriber_has_each_publication_once_over_kills(make: Make) -> None:
    """C4, C11, C19: each subscriber consumes each publication once."""
    daemon = make().start()
    load = TopicLoad(daemon.address, 1, stall_max_s=20)
    asyncio.run(worked(load, daemon, lambda: load.republished, kills=3))
    assert not load.lost
    assert not load.doubled
    assert not any(load.faults().values()), load.faults()
    assert load.parked


@pytest.mark.process
def test_daemon_that_keeps_publications_without_holders_is_found(make: Make) -> None:
    daemon = make()
    daemon.command = [sys.executable, broken.__file__, "hoard"]
    load = TopicLoad(daemon.start().address, 1, stall_max_s=1)
    asyncio.run(worked(load, daemon, lambda: True))
    assert load.faults()["left"]


def _message(number: int, topic: str, state: int = 0) -> Message:
    fields: dict[str, Any] = dict.fromkeys(Message._fields[:13], 0)
    fields |= {"body": b"%d" % number, "uid": Uid("QM1", number), "state": state, "topic": topic}
    return Message(**fields)


def test_audit_finds_the_faults() -> None:
    load = TopicLoad("", 1)
    load.tried = {FAIL_EVERY: "flights", 1: "flights/JFK/UA", 2: "flights"}
    load.acknowledged = {FAIL_EVERY, 1, 2}
    for number, topic in ((1, "flights/JFK/UA"), (2, "flights"), (3, "flights")):
        load.consumed["CRASH:all"].add(load.note("CRASH:all", _message(number, topic)))
    load.note("CRASH:all", _message(1, "flights/JFK/UA"))
    load.note("CRASH:ua", _message(2, "flights"))
    load.note(FAILS, _message(FAIL_EVERY, "flights", STATE_REPUBLISHED))
    load.note(FAILS, _message(2, "flights", STATE_REPUBLISHED))
    assert load.doubled == ["1 to CRASH:all"]
    assert load.lost == [
        "37 to CRASH:all",
        "1 to CRASH:ua",
        "1 to CRASH:fails",
        "2 to CRASH:fails",
        "37 to CRASH:fails",
    ]
    assert load.faults() == {
        "unexpected": ["3 to CRASH:all", "2 to CRASH:ua"],
        "republished without a failure": ["2"],
        "left": [],
    }
