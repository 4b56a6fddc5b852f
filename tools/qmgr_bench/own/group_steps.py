"""Steps in groups on queues of 100 to 1,000,000 other messages, compared with a search.

Each depth has its own store, filled once. The depths take turns, burst by burst, so a drift affects
all of them. Half of the other messages are ungrouped. The other half are members of groups without
a last member, and come before the complete groups. A burst is twenty steps of each kind in one
write. The burst then returns the messages unread. The return is not timed.
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.batches import BatchSender
from qmgr_bench.own.traffic import SIZE_BYTES, pour
from qmgr_bench.qmgr import CREDIT_BYTES, Wire, bodies
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgr_protocol.record import GROUP_ID_BYTES, PRIORITY_DEFAULT, PRIORITY_MAX, Fields, encode

DEPTHS = (100, 10_000, 1_000_000)
BURST = 20  # number of steps in one write, which the daemon processes in one turn
BURSTS_MIN = 5  # minimum number of bursts per round
PART = 5  # number of members of a group that has no last member
WHOLE = 3  # members of a complete group
QUEUE = "GROUPS"
READER = 1  # id of the first reader
BODIES = bodies(SIZE_BYTES, vary=True)[:100]


class StepBurst(NamedTuple):
    """The daemon's processor time of one burst, in us per step."""

    next_cpu_us: float  # time to get the next member with a reader
    pinned_cpu_us: float  # time to get the next member with a pinned consumer
    whole_cpu_us: float  # the first member of a complete group


@dataclass(frozen=True, slots=True)
class StepsAtDepth:
    """The results at one depth of the series."""

    depth: int  # number of other messages
    next_cpu_us: float
    pinned_cpu_us: float
    whole_cpu_us: float
    search_cpu_us: float  # time to find one member with a selector
    steps: int  # number of timed steps of each kind; each round has one search


class Steps(NamedTuple):
    """The results of all depths.

    Growth is the processor time at the greatest depth, relative to the smallest in the same turn.
    """

    series: list[StepsAtDepth]
    next_growth: float
    pinned_growth: float
    whole_growth: float
    search_growth: float


def steps(setting: Setting) -> Steps:
    """Times the steps at each depth, alternately."""
    depths = sorted({max(setting.scaled(depth), BURST) for depth in DEPTHS})
    setting.check_disk(sum(depths))
    bursts: dict[int, list[StepBurst]] = {depth: [] for depth in depths}
    searches: dict[int, list[float]] = {depth: [] for depth in depths}
    with ExitStack() as stack:
        hosts = {
            depth: stack.enter_context(Host(setting.directory / f"depth{depth}", f"D{depth}"))
            for depth in depths
        }
        for depth, host in hosts.items():
            fill(host, depth, setting)
        for number in range(setting.rounds):
            setting.say(f"GROUP: steps, round {number + 1} of {setting.rounds}")
            os.sync()  # Earlier writes must not be flushed during the round.
            _round(hosts, bursts, searches, setting.seconds)
    series = [_point(depth, bursts[depth], searches[depth]) for depth in depths]
    next_, pinned, whole = (growth(bursts, name) for name in StepBurst._fields)
    search = median_ratio(searches[max(depths)], searches[min(depths)])
    return Steps(series, next_, pinned, whole, search)


def growth(times: Mapping[int, Sequence[StepBurst]], name: str) -> float:
    """Returns *name* at the greatest depth, relative to the smallest in the same turn."""
    low, high = ([getattr(burst, name) for burst in times[end(times)]] for end in (min, max))
    return median_ratio(high, low)


def _point(depth: int, bursts: Sequence[StepBurst], searches: Sequence[float]) -> StepsAtDepth:
    next_us, pinned_us, whole_us = (
        round(median([getattr(burst, name) for burst in bursts]), 2) for name in StepBurst._fields
    )
    search_us = round(median(searches), 1)
    return StepsAtDepth(depth, next_us, pinned_us, whole_us, search_us, len(bursts) * BURST)


def _round(
    hosts: Mapping[int, Host],
    bursts: dict[int, list[StepBurst]],
    searches: dict[int, list[float]],
    seconds: float,
) -> None:
    """Adds a search and as many bursts as *seconds* allow to the results of each depth."""
    with ExitStack() as stack:
        steppers = {
            depth: Stepper(host, stack.enter_context(Wire(host.address, "bench.group")))
            for depth, host in hosts.items()
        }
        stop_s, number = time.monotonic() + seconds, 0
        while number < BURSTS_MIN or time.monotonic() < stop_s:
            in_turn = list(steppers.items())
            for depth, stepper in in_turn if number % 2 else reversed(in_turn):
                stepper.burst()  # Another daemon has used the processor's caches.
                bursts[depth].append(stepper.burst())
            number += 1
        for depth, stepper in steppers.items():
            searches[depth].append(stepper.search())


def fill(host: Host, depth: int, setting: Setting) -> None:
    """Puts *depth* other messages, then the groups for the steps."""
    host.ask(m.QueueCreate, QUEUE)
    with Wire(host.address, "bench.fill") as wire:
        words = f"GROUP: filling depth {depth:,}"
        pour(BatchSender(wire, QUEUE, other_of), depth, words, setting.say)
        ours = long_group() + whole_groups()
        pour(
            BatchSender(wire, QUEUE, ours.__getitem__),
            len(ours),
            "GROUP: putting the groups",
            setting.say,
        )


def other_of(number: int) -> bytes:
    """Returns the record of other message *number*."""
    body = BODIES[number % len(BODIES)]
    if number % 2 == 0:
        return encode(Fields(body, PRIORITY_DEFAULT))
    group, at = divmod(number // 2, PART)
    return encode(Fields(body, PRIORITY_MAX, group=(group_id("part", group), at + 1, False)))


def long_group() -> list[bytes]:
    """Returns a group without a last member. It has one member more than a burst has steps."""
    long = group_id("long", 0)
    return [
        encode(Fields(BODIES[at], PRIORITY_MAX, group=(long, at + 1, False)))
        for at in range(BURST + 1)
    ]


def whole_groups() -> list[bytes]:
    """Returns the members of complete groups, one group per step of a burst."""
    return [
        encode(Fields(BODIES[at], PRIORITY_MAX, group=(group_id("whole", number), at, at == WHOLE)))
        for number in range(BURST)
        for at in range(1, WHOLE + 1)
    ]


def group_id(kind: str, number: int) -> bytes:
    """Returns the id of group *number* of *kind*."""
    return f"{kind} {number}".encode().ljust(GROUP_ID_BYTES, b"\0")


class Stepper:
    """A client that steps through groups on the queue of one depth, on one connection."""

    def __init__(self, host: Host, wire: Wire) -> None:
        self._host = host
        self._wire = wire
        self._settles = 0

    def burst(self) -> StepBurst:
        """Does twenty steps of each kind and leaves the queue unchanged."""
        return StepBurst(self._next(), self._pinned(), self._whole())

    def search(self) -> float:
        """Returns the daemon's processor time in us for finding a member with a selector."""
        where = f"group_id = '{group_id('long', 0).hex()}' AND group_number = {BURST}"
        items, cpu_us = self._timed(self._get(where=where), 1)
        self._give_back(items)
        return cpu_us

    def _next(self) -> float:
        """Steps a reader from member to member. Returns the processor time in us per step."""
        begin = self._get(group_id=group_id("long", 0), order=m.LOGICAL, reader=READER)
        first, _ = self._timed(begin, 1)
        frames = [self._get(order=m.LOGICAL, reader=READER) for _ in range(BURST)]
        items, cpu_us = self._timed(b"".join(frames), BURST)
        self._give_back(first + items)
        self._close([READER])
        return cpu_us / BURST

    def _pinned(self) -> float:
        """Steps a pinned consumer from member to member, one credit at a time.

        Returns the processor time in us per step.
        """
        send, consumer = self._wire.connection.send, self._wire.next_request()
        consume = m.Consume(
            consumer, QUEUE, 1, CREDIT_BYTES, group_id=group_id("long", 0), order=m.PINNED
        )
        first, _ = self._timed(send(consume), 1)
        frames = [send(m.Credit(consumer, 1, 0)) for _ in range(BURST)]
        items, cpu_us = self._timed(b"".join(frames), BURST)
        self._wire.send(m.Cancel(consumer))
        while type(self._wire.next()) is not m.Ended:
            pass
        self._give_back(first + items)
        return cpu_us / BURST

    def _whole(self) -> float:
        """Starts complete groups with readers. Returns the processor time in us per step."""
        readers = range(READER + 1, READER + 1 + BURST)
        frames = [self._get(order=m.LOGICAL, all_available=True, reader=one) for one in readers]
        items, cpu_us = self._timed(b"".join(frames), BURST)
        self._give_back(items)
        self._close(readers)
        return cpu_us / BURST

    def _get(self, **wanted: object) -> bytes:
        wire = self._wire
        return wire.connection.send(m.Get(wire.next_request(), QUEUE, **wanted))  # type: ignore[arg-type]

    def _timed(self, frames: bytes, count: int) -> tuple[list[bytes], float]:
        """Sends *frames*. Returns the next *count* messages and the daemon's processor time in us.

        Raises:
            LoadFailed: A message does not arrive.
        """
        before_ns, items = self._host.idle_cpu_ns(), list[bytes]()
        self._wire.sock.sendall(frames)
        while len(items) < count:
            answer = self._wire.next()
            if type(answer) is m.Deliver:
                self._queue_id = answer.queue_id
                items += answer.items
            elif type(answer) is not m.Ok or answer.value is None:
                raise LoadFailed(
                    f"received a different answer than the requested message: {str(answer)[:200]}"
                )
        return items, (self._host.idle_cpu_ns() - before_ns) / 1000

    def _give_back(self, items: Sequence[bytes]) -> None:
        """Returns messages to the queue as if they had not been delivered."""
        handles = b"".join([item[: m.HANDLE.size] for item in items])
        self._settles += 1
        self._wire.send(m.Settle(self._settles, m.UNREAD, self._queue_id, handles))
        settled = self._wire.next()
        if type(settled) is not m.Settled or settled.exceptions:
            raise LoadFailed(
                f"the daemon did not return the messages to the queue: {str(settled)[:200]}"
            )

    def _close(self, readers: Sequence[int]) -> None:
        wire = self._wire
        frames = [wire.connection.send(m.ReaderClose(wire.next_request(), one)) for one in readers]
        wire.sock.sendall(b"".join(frames))
        for _ in readers:
            wire.next()
