"""C1000: a thousand connections with one message in flight each, beside W1b.

The generator must not be what is measured. So each connection has its put as bytes beforehand, of
which only the id is exchanged, and an answer is read with one look at its array.
"""

import os
import resource
import struct
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from qmgr_protocol import messages as m
from qmgr_protocol.codec import unpack
from qmgr_protocol.frame import LENGTH
from qmgr_protocol.layout import to_array
from qmgr_tools.bench_own_host import (
    SIZE_BYTES,
    Host,
    Load,
    LoadFailed,
    Plan,
    Pulse,
    Wire,
    bodies,
    put,
    records,
)
from qmgr_tools.bench_own_result import Setting, Target, at_least, at_most, median, median_ratio

CONNECTIONS = 1_000
FILES_SPARE = 200
QUEUE = "WIDE"
GENERATOR_SHARE_MAX = 0.9  # of a core
COMMITTED = to_array(m.Committed(1, 1))[0]
ID = struct.Struct(">Q")
ID_MARK = 0x5A5A_5A5A_5A5A_5A5A  # takes the nine bytes of any id that is written in full


@dataclass(frozen=True, slots=True)
class Wide:
    """C1000."""

    connections: int
    put_per_s: float
    put_per_s_w1b: float
    ratio: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    daemon_cpu_us: float
    generator_cpu_us: float
    generator_share: float

    def targets(self) -> list[Target]:
        """Return what it was to reach."""
        name = f"puts of {self.connections:,} connections, one in flight each, of those of W1b"
        return [
            at_least(name, self.ratio, 1.0),
            at_most("the generator's share of a core", self.generator_share, GENERATOR_SHARE_MAX),
        ]


def c1000(setting: Setting) -> Wide:
    """Measure the connections and W1b in turns, on one daemon."""
    connections = setting.scaled(CONNECTIONS)
    allow_files(connections + FILES_SPARE)
    wide: list[Pulse] = []
    w1b: list[Pulse] = []
    with Host(setting.directory / "wide") as host:
        for number in range(setting.rounds):
            setting.say(f"C1000: round {number + 1} of {setting.rounds}")
            for is_wide in (True, False) if number % 2 else (False, True):
                host.ask(m.QueueCreate, QUEUE)
                if is_wide:
                    wide.append(put_wide(host, connections, setting.seconds))
                else:
                    w1b.append(put(host, QUEUE, setting.seconds))
                host.ask(m.QueueDelete, QUEUE, True)
                wait_for_jobs(host)
    rates = [pulse.messages_per_second for pulse in wide]
    references = [pulse.messages_per_second for pulse in w1b]
    return Wide(
        connections, median(rates), median(references), median_ratio(rates, references),
        *(median([getattr(pulse, name) for pulse in wide])
          for name in ("p50_ms", "p99_ms", "p999_ms", "cpu_us", "generator_cpu_us",
                       "generator_share")),
    )  # fmt: skip


def wait_for_jobs(host: Host) -> None:
    """Return when what was deleted is gone, so that it is not measured."""
    with Wire(host.address, "bench.control") as wire:
        while wire.ask(m.Status)["jobs"]:
            pass


def put_wide(host: Host, connections: int, seconds: float) -> Pulse:
    """Have so many *connections* put, each its next message when the last one is answered."""
    pool = records(bodies(SIZE_BYTES, vary=True))
    with ExitStack() as stack:
        senders = []
        for number in range(connections):
            wire = stack.enter_context(Wire(host.address, f"bench.wide.{number}"))
            senders.append(LeanSender(wire, QUEUE, pool[number % len(pool)]))
        before_s = host.cpu_s()
        outcome = Load(Plan(1, seconds), senders, None).run()
        return Pulse.of(outcome, host.cpu_s() - before_s)


class LeanSender:
    """A producer that always puts the same record, one at a time, from bytes made beforehand."""

    def __init__(self, wire: Wire, queue: str, record: bytes) -> None:
        """Open the producer's stream."""
        self.sock = wire.sock
        self._wire = wire
        stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._before, self._after = template(wire, stream, queue, [record])
        self._id = 0

    def put(self, count: int) -> bytes:
        """Return the next put; *count* is 1."""
        assert count == 1
        self._id += 1
        return self._before + ID.pack(self._id) + self._after

    def take(self, data: bytes) -> int:
        """Return how many puts *data* acknowledges.

        Raises:
            LoadFailed: the put was refused.
        """
        if not self._wire.connection.buffered_bytes and data[:4] == LENGTH.pack(
            max(len(data) - 4, 0)
        ):
            operation, *fields = unpack(data[4:])
            if operation == COMMITTED:
                return self._answered(fields)
        return sum(self._answered(list(message)) for message in self._wire.take(data))

    def _answered(self, fields: Sequence[object]) -> int:
        """Take the fields of a Committed."""
        if len(fields) < 3 or fields[1] != self._id or fields[2]:
            raise LoadFailed(f"not the answer to put {self._id}: {fields}")
        return 1


def template(wire: Wire, stream: int, queue: str, batch: list[bytes]) -> tuple[bytes, bytes]:
    """Return what stands before and behind the id in a put of *batch*; an id takes eight bytes."""
    frame = wire.connection.send(m.Put(stream, ID_MARK, 0, queue, batch))
    before, after = frame.split(ID.pack(ID_MARK), 1)
    return before, after


def allow_files(files: int) -> None:
    """Allow this process, and the daemons that it starts, so many open *files*.

    Raises:
        LoadFailed: the system does not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < files:
        raise LoadFailed(f"{files} open files are needed, ulimit -Hn allows {hard}")
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
