"""Tests of a real daemon whose small store is filled by every operation that may grow it."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Fields
from qmgrd.core.growth import GROWING
from qmgrd.verify.verify import verify
from tests.growing import LIMITS, REQUESTS, grouped, heavy, prepare
from tests.process.conftest import Make
from tests.process.daemon import Daemon, Wire

pytestmark = pytest.mark.process
ATTEMPTS = 60
PEER = b"P" * 16
BATCH = 50


def link(daemon: Daemon) -> Wire:
    """Returns the connection of another queue manager."""
    wire = Wire(daemon.address)
    wire.send(m.Hello(m.MAGIC, 1, 1, "queue-manager", "PEER", [], PEER))
    wire.next(m.Welcome)
    return wire


def put_until_full(daemon: Daemon) -> None:
    with daemon.connect() as wire:
        producer, number = wire.producer(b"F" * 16), 0
        while True:
            refused = producer.put("Q", *[heavy(number + i, 1_500) for i in range(BATCH)])
            if refused:
                assert {code for _, code, _ in refused} == {ErrorCode.STORE_FULL}
                return
            number += BATCH


def commit_until_full(daemon: Daemon) -> ErrorCode | None:
    with daemon.connect() as wire:
        producer = wire.producer(b"U" * 16)
        for number in range(1, 3 * ATTEMPTS):
            wire.ask(m.UnitBegin, number)
            refused, _ = wire.ask(m.UnitPut, number, "Q", [heavy(number, 1_500)])
            if refused:
                return ErrorCode(refused[0][1])
            wire.send(m.UnitCommit(producer.stream, number, number - 1, number, 1, 0))
            if answered := wire.next(m.Committed).refused:
                return ErrorCode(answered[0][1])
    return None


def codes(daemon: Daemon, kind: type[Any]) -> Iterator[ErrorCode]:
    """Yields the refusal codes of requests of type *kind*, until a limit is reached."""
    for number in range(ATTEMPTS):
        with link(daemon) if kind is m.LinkOpen else daemon.connect() as wire:
            try:
                wire.ask(kind, *REQUESTS[kind](number))
            except RequestError as error:
                yield ErrorCode(error.code)
                if error.code in LIMITS:
                    return


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_store_that_every_operation_fills_survives(make: Make, end: signal.Signals) -> None:
    daemon = make(store={"map_bytes": "16 MiB", "free_disk_min_bytes": 0}).start()
    with daemon.connect() as wire:
        prepare(wire.ask)
        wire.producer(b"G" * 16).put("GROUPED", grouped(1))
    put_until_full(daemon)
    assert commit_until_full(daemon) == ErrorCode.STORE_FULL
    found = {kind: set(codes(daemon, kind)) for kind in sorted(GROWING, key=str)}
    assert found[m.QueueCreate] == found[m.TopicSet] == {ErrorCode.STORE_FULL}
    # The reserve has space for producers, because a unit that only gets also needs one.
    assert found[m.ProducerOpen] == set()
    with daemon.connect() as wire:
        assert "puts stop at" in wire.ask(m.Status)["store_full"]
    daemon.signal(end)
    assert daemon.exit_code() in (0, -signal.SIGKILL)
    with daemon.start().connect() as wire:
        assert len(wire.drain("Q")) > 3_000
        assert wire.ask(m.Status)["store_full"] == ""
        assert wire.producer(b"P" * 16).put("Q", records.encode(Fields(b"again"))) == []
    assert daemon.stop() == 0
    assert not verify(daemon.data_dir).findings.kept
