"""TOPIC: republishing compared with publishing again, after three of a thousand subscribers fail.

    publication ──▶ 1,000 subscribers ──▶ 997 acknowledge
                                   ──▶   3 release it until it is parked
    republish   ──▶ 3 copies, to these 3 only          publish again ──▶ 1,000 copies, 997 of them
                                                                         duplicates

Both methods are measured by counting deliveries, with different subscribers and publications. A
copy of an acknowledged publication is a duplicate (C21).
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qmgr_bench.host import Host
from qmgr_bench.load import READ_BYTES, SILENCE_MAX_S, LoadFailed
from qmgr_bench.median import median
from qmgr_bench.own.crowd import DESTINATION, FILTER, name_of
from qmgr_bench.own.traffic import SIZE_BYTES
from qmgr_bench.qmgr import CREDIT_BYTES, Wire, bodies
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgr_protocol.record import Fields, encode

SUBSCRIBERS, FAILING = 1_000, 3
LIMIT = 2  # maximum number of redeliveries before a publication is parked
PREFETCH = 16
PUBLICATIONS = "SYSTEM.PUBLICATIONS"


@dataclass(frozen=True, slots=True)
class Resent:
    """The results of one method of sending the publication again. Times are medians."""

    way: str
    subscribers: int
    failing: int
    # number of redeliveries to the failing subscribers before the publication was sent again
    redeliveries: int
    listed: int  # number of subscribers for which the publication was parked
    copies: int  # number of deliveries after the publication was sent again
    duplicates: int  # copies for subscribers that had already acknowledged it
    lacking: int  # number of subscribers that never received the publication
    left: int  # number of publications that the queue manager holds at the end
    ms: float  # time from the request until the last copy is acknowledged
    cpu_ms: float  # processor time of the daemon


@dataclass(slots=True)
class _Crowd:
    """The consumers of all subscriptions on one connection. The failing ones release every message.

    Invariant: ``had`` counts the acknowledged deliveries by subscription number.
    """

    wire: Wire
    count: int
    failing: set[int]
    had: Counter[int] = field(default_factory=Counter)
    deliveries: int = 0
    failures: int = 0
    is_mended: bool = False
    _numbers: dict[int, int] = field(default_factory=dict)  # subscription number, by consumer
    _fence: int = 0  # id of an unanswered request, or 0
    _settle_id: int = 0
    _settled_id: int = 0

    def open(self) -> None:
        """Starts the consumers."""
        self.wire.sock.settimeout(SILENCE_MAX_S)
        for number in range(self.count):
            consumer = self.wire.next_request()
            self._numbers[consumer] = number
            self.wire.send(m.Consume(consumer, name_of(number), PREFETCH, CREDIT_BYTES))

    def until(self, is_so: Callable[[], bool]) -> None:
        """Processes messages until *is_so* returns true and all settles are answered.

        Raises:
            LoadFailed: Nothing arrived for SILENCE_MAX_S, or a settle failed.
        """
        while not (is_so() and self._settled_id == self._settle_id):
            try:
                data = self.wire.sock.recv(READ_BYTES)
            except TimeoutError:
                raise LoadFailed(f"nothing arrived for {SILENCE_MAX_S:.0f} s") from None
            for message in self.wire.take(data):
                self._hear(message)

    def fence(self) -> None:
        """Processes all deliveries up to now by waiting for the answer to a request."""
        self._fence = self.wire.next_request()
        self.wire.send(m.Status(self._fence))
        self.until(lambda: not self._fence)

    def _hear(self, message: Any) -> None:
        kind = type(message)
        if kind is m.Deliver:
            self._work(message)
        elif kind is m.Settled and not message.exceptions:
            self._settled_id = message.settle_id
        elif kind is m.Ok:
            if message.request_id == self._fence:
                self._fence = 0
        else:
            raise LoadFailed(f"unexpected answer for a subscriber: {str(message)[:200]}")

    def _work(self, message: m.Deliver) -> None:
        number, count = self._numbers[message.request_id], len(message.items)
        self.deliveries += count
        fails = number in self.failing and not self.is_mended
        if fails:
            self.failures += count
        else:
            self.had[number] += count
        self._settle_id += 1
        handles = b"".join(item[: m.HANDLE.size] for item in message.items)
        action = m.RELEASE if fails else m.ACK
        size = sum(map(len, message.items))
        self.wire.send(m.Settle(self._settle_id, action, message.queue_id, handles))
        self.wire.send(m.Credit(message.request_id, count, size))


def republishing(setting: Setting) -> list[Resent]:
    """Measures both methods alternately."""
    count = max(setting.scaled(SUBSCRIBERS), 2 * FAILING)
    found: dict[str, list[Resent]] = {"republish": [], "publish again": []}
    for number in range(setting.rounds):
        setting.say(f"TOPIC: republish, round {number + 1} of {setting.rounds}")
        for way in found:
            with Host(setting.directory / f"again{number}{way[0]}") as host:
                found[way].append(_resent(host, way, count))
    return [_summary(rounds) for rounds in found.values()]


def _resent(host: Host, way: str, count: int) -> Resent:
    failing = set(range(count // 2, count // 2 + FAILING))
    with Wire(host.address, "bench.control") as control, Wire(host.address, "bench.crowd") as wire:
        for number in range(count):
            control.ask(m.Subscribe, FILTER, name_of(number), "", {"redelivery_limit": LIMIT})
        crowd = _Crowd(wire, count, failing)
        crowd.open()
        publisher = _Publisher(control)
        publisher.publish()
        crowd.until(
            lambda: len(crowd.had) == count - FAILING and crowd.failures == FAILING * (LIMIT + 1)
        )
        listed = len(control.ask(m.RepublishList)["parked"])
        os.sync()  # Earlier writes must not be flushed during the run.
        before, failures = crowd.deliveries, crowd.failures
        crowd.is_mended = True
        start_ns, start_cpu_ns = time.monotonic_ns(), host.idle_cpu_ns()
        if way == "republish":
            control.ask(m.Republish)
            crowd.until(lambda: crowd.deliveries >= before + FAILING)
        else:
            publisher.publish()
            crowd.until(lambda: crowd.deliveries >= before + count)
        ms = (time.monotonic_ns() - start_ns) / 1e6
        cpu_ms = (host.idle_cpu_ns() - start_cpu_ns) / 1e6
        if way != "republish":
            control.ask(m.Republish, True)  # The parked copies are no longer needed.
        host.wait_for_jobs()
        crowd.fence()
        copies = crowd.deliveries - before
        return Resent(
            way,
            count,
            FAILING,
            failures - FAILING,
            listed,
            copies,
            sum(had - 1 for had in crowd.had.values() if had),
            count - len(crowd.had),
            control.ask(m.QueueShow, PUBLICATIONS)["depth"],
            round(ms, 2),
            round(cpu_ms, 2),
        )


class _Publisher:
    """A publisher of the same body, each time as a new publication."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._record = encode(Fields(bodies(SIZE_BYTES, vary=False)[0]))
        self._id = 0

    def publish(self) -> None:
        """Publishes the body and waits until the publication is on disk."""
        self._id += 1
        self._wire.send(m.Put(self._stream, self._id, self._id - 1, DESTINATION, [self._record]))
        answer = self._wire.next()
        if type(answer) is not m.Committed or answer.refused:
            raise LoadFailed(f"a publication was refused: {str(answer)[:200]}")


def _summary(rounds: Sequence[Resent]) -> Resent:
    """Returns the numbers of copies of the worst round and the medians of the times.

    The numbers should be equal in all rounds.
    """
    worst = max(rounds, key=lambda one: (one.duplicates, one.lacking, one.copies, one.left))
    return Resent(
        worst.way,
        worst.subscribers,
        worst.failing,
        worst.redeliveries,
        worst.listed,
        worst.copies,
        worst.duplicates,
        worst.lacking,
        worst.left,
        median([one.ms for one in rounds]),
        median([one.cpu_ms for one in rounds]),
    )
