"""DUP: the check for duplicates, compared with the search that it replaces (IPCOM000015189D).

The producer supplies the UIDs. A queue of each depth accepts a burst, which is timed. The same
number of messages is then consumed. The queues take turns, burst by burst, so a drift affects all
of them.

The search scans the queue's UIDs in memory. This favours the search, because the document searches
the queue in its store.
"""

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from qmgr_bench.host import Host
from qmgr_bench.load import READ_BYTES, LoadFailed
from qmgr_bench.median import median, median_ratio
from qmgr_bench.own.traffic import SIZE_BYTES, pool_of, pour
from qmgr_bench.qmgr import Wire
from qmgr_bench.setting import Setting
from qmgr_bench.target import Bars, Target, at_most
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid, encode_uid, stamp_encoded

DEPTHS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
BURST = 20  # number of puts per frame; small, so that a queue of 10 messages stays small
BURSTS_MIN, SEARCHES = 5, 5  # minimum number of bursts per round, and number of searches
FLAT = 1.1
ORIGIN = "BENCH-ORIGIN"
_ticks = itertools.count(time.time_ns())


@dataclass(frozen=True, slots=True)
class DuplicateAtDepth:
    """The results at one depth of the series."""

    depth: int
    put_us: float  # time of a put in a burst, until the message is on disk
    cpu_us: float  # the daemon's processor time for a put, without waits for the disk
    search_us: float  # time of the search for one put
    put_with_search_us: float
    comparisons: int  # number of comparisons per search; the daemon makes none
    puts: int  # number of timed puts


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The results of row DUP."""

    series: list[DuplicateAtDepth]
    fast: int  # number of puts that the table of origins alone decided
    lookups: int  # number of puts that needed a lookup in the index
    duplicates_refused: int
    duplicates_put: int
    growth: float  # time of a put at the greatest depth, relative to the smallest in the same turn

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""
        low, high = self.series[0].depth, self.series[-1].depth
        missed = self.duplicates_put - self.duplicates_refused
        return [
            at_most("lookups on the fast path", self.lookups, 0),
            at_most(
                f"time of a put at depth {high:,}, relative to depth {low:,}", self.growth, FLAT
            ),
            at_most("duplicates accepted", missed, 0),
        ]

    def bars(self) -> tuple[str, Bars]:
        """Returns the times of puts and searches as bars."""
        puts = [(f"put at {point.depth:,}", point.put_us, True) for point in self.series]
        walks = [(f"search at {point.depth:,}", point.search_us, False) for point in self.series]
        return "us per put, and per search that the daemon avoids, medians", puts + walks


def dup(setting: Setting) -> Duplicates:
    """Times puts with UIDs at each depth, alternately, and the search at the same depths."""
    depths = sorted({setting.scaled(depth) for depth in DEPTHS})
    setting.check_disk(sum(depths))
    times: dict[int, list[PutBurst]] = {depth: [] for depth in depths}
    searches: dict[int, list[float]] = {depth: [] for depth in depths}
    with Host(setting.directory / "dup") as host:
        for depth in depths:
            host.ask(m.QueueCreate, _queue(depth))
            _fill(host, depth, setting)
        fast, lookups = _counted(host, depths)
        for number in range(setting.rounds):
            setting.say(f"DUP: round {number + 1} of {setting.rounds}")
            _bursts(host, times, setting.seconds)
            for depth in depths:
                searches[depth].append(search_us(depth))
        now_fast, now_lookups = _counted(host, depths)
        refused = sum(_put_again(host, depth) for depth in depths)
    series = [_point(depth, times[depth], median(searches[depth])) for depth in depths]
    return Duplicates(
        series, now_fast - fast, now_lookups - lookups, refused, BURST * len(depths), growth(times)
    )


def growth(times: Mapping[int, Sequence["PutBurst"]]) -> float:
    """Returns a put's time at the greatest depth, relative to the smallest in the same turn."""
    low, high = ([burst.put_us for burst in times[depth]] for depth in (min(times), max(times)))
    return median_ratio(high, low)


def _point(depth: int, bursts: Sequence["PutBurst"], walk_us: float) -> DuplicateAtDepth:
    put_us = median([burst.put_us for burst in bursts])
    cpu_us = median([burst.cpu_us for burst in bursts])
    both_us = round(put_us + walk_us, 2)
    return DuplicateAtDepth(depth, put_us, cpu_us, walk_us, both_us, depth, len(bursts) * BURST)


def _queue(depth: int) -> str:
    return f"D{depth}"


def _fill(host: Host, depth: int, setting: Setting) -> None:
    with Wire(host.address, "bench.fill") as wire:
        sender = UidSender(wire, _queue(depth))
        pour(sender, depth, f"DUP: filling depth {depth:,}", setting.say)


def _counted(host: Host, depths: Sequence[int]) -> tuple[int, int]:
    """Returns the number of puts that the table decided, and of those that needed the index."""
    rows = [host.ask(m.QueueShow, _queue(depth)) for depth in depths]
    return sum(row["fast"] for row in rows), sum(row["slow"] + row["duplicates"] for row in rows)


def _bursts(host: Host, times: dict[int, list["PutBurst"]], seconds: float) -> None:
    """Times as many bursts at each depth as *seconds* allow, and adds the times."""
    with ExitStack() as stack:
        lines = {
            depth: Line(stack.enter_context(Wire(host.address, f"bench.dup.{depth}")), depth)
            for depth in times
        }
        stop_s, number = time.monotonic() + seconds, 0
        while number < BURSTS_MIN or time.monotonic() < stop_s:
            for depth in lines if number % 2 else reversed(lines):
                before_ns = host.cpu_ns()
                put_us = lines[depth].burst()
                cpu_us = (host.cpu_ns() - before_ns) / 1000 / BURST
                times[depth].append(PutBurst(put_us, cpu_us))
                lines[depth].give_back()
            number += 1


def _put_again(host: Host, depth: int) -> int:
    with Wire(host.address, "bench.dup.again") as wire:
        return Line(wire, depth).put_again()


class PutBurst(NamedTuple):
    """The times of one burst, in us per put."""

    put_us: float
    cpu_us: float


class UidSender:
    """A producer that supplies ascending UIDs of one origin."""

    def __init__(self, wire: Wire, queue: str) -> None:
        """Opens the producer's stream."""
        self.sock = wire.sock
        self.last: list[bytes] = []
        self._wire = wire
        self._queue = queue
        self._pool = pool_of(SIZE_BYTES)
        self._stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._next_id = 1
        self._answered = 0
        self.refused = 0

    def put(self, count: int) -> bytes:
        """Returns the frames of *count* puts of new messages."""
        frames = []
        while count:
            size = min(count, 500)
            new = zip(self._pool[:size], _ticks, strict=False)
            self.last = [stamp_encoded(record, trailer_of(tick)) for record, tick in new]
            frames.append(self.again())
            count -= size
        return b"".join(frames)

    def again(self) -> bytes:
        """Returns a frame that puts the last frame's messages again, as duplicates with new ids."""
        first_id, self._next_id = self._next_id, self._next_id + len(self.last)
        put = m.Put(self._stream, first_id, first_id - 1, self._queue, self.last)
        return self._wire.connection.send(put)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* answers.

        Raises:
            LoadFailed: A put was refused for a reason other than a duplicate.
        """
        answered = 0
        for message in self._wire.take(data):
            if type(message) is not m.Committed:
                raise LoadFailed(f"unexpected answer to a put: {message}")
            for _, code, text in message.refused:
                if code != ErrorCode.DUPLICATE_MESSAGE:
                    raise LoadFailed(f"a put was refused: {text}")
            self.refused += len(message.refused)
            answered += message.commit_id - self._answered
            self._answered = message.commit_id
        return answered


def trailer_of(timestamp: int) -> bytes:
    """Returns the UID with *timestamp*, encoded as in a record."""
    return encode_uid(Uid(ORIGIN, timestamp))


class Line:
    """A producer and a consumer of one queue."""

    def __init__(self, wire: Wire, depth: int) -> None:
        self._wire = wire
        self._queue = _queue(depth)
        self._sender = UidSender(wire, self._queue)
        self._settles = 0

    def burst(self) -> float:
        """Puts BURST messages. Returns the time in us per message until all are on disk."""
        frame = self._sender.put(BURST)
        start_ns = time.monotonic_ns()
        self._answered(frame)
        return (time.monotonic_ns() - start_ns) / 1000 / BURST

    def _answered(self, frame: bytes) -> None:
        sock, answered = self._wire.sock, 0
        sock.sendall(frame)
        while answered < BURST:
            answered += self._sender.take(sock.recv(READ_BYTES))

    def give_back(self) -> None:
        """Gets and acknowledges the oldest BURST messages."""
        wire, got = self._wire, 0
        while got < BURST:
            wire.send(m.Get(wire.next_request(), self._queue, BURST - got))
            deliver = wire.next()
            if type(deliver) is not m.Deliver:
                raise LoadFailed(f"expected a delivery, received {deliver}")
            handles = b"".join(item[: m.HANDLE.size] for item in deliver.items)
            self._settles += 1
            wire.send(m.Settle(self._settles, m.ACK, deliver.queue_id, handles))
            wire.next()
            got += len(deliver.items)

    def put_again(self) -> int:
        """Puts a burst twice. Returns the number of refused duplicates."""
        self.burst()
        before = self._sender.refused
        self._answered(self._sender.again())
        return self._sender.refused - before


class SearchedQueue:
    """The queue of the prior art, in which every put searches all messages for an equal UID."""

    def __init__(self) -> None:
        self._uids: list[bytes] = []

    def put(self, uid: bytes) -> bool:
        """Appends *uid*. Returns False, without a change, if *uid* exists."""
        if self.holds(uid):
            return False
        self._uids.append(uid)
        return True

    def fill(self, uids: Sequence[bytes]) -> None:
        """Appends *uids*, which are known to be different, without a search."""
        self._uids.extend(uids)

    def holds(self, uid: bytes) -> bool:
        """Returns whether *uid* exists, with the fastest scan in Python."""
        return uid in self._uids


def search_us(depth: int) -> float:
    """Returns the median time in us of a search for a missing UID at *depth*."""
    queue = SearchedQueue()
    queue.fill([trailer_of(timestamp) for timestamp in range(depth)])
    times = []
    for number in range(SEARCHES):
        wanted = trailer_of(depth + number)
        start_ns = time.monotonic_ns()
        queue.holds(wanted)
        times.append((time.monotonic_ns() - start_ns) / 1000)
    return median(times)
