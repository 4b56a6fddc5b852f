"""Two daemons and a link between them, for the benchmark.

FROM: Q@TO ──link, initially stopped──▶ TO: Q
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.link import FROM, QUEUE, REMOTE, TO, await_all
from qmgr_bench.own.traffic import fill
from qmgr_bench.qmgr import Wire
from qmgr_protocol import messages as m

WAIT_MAX_S = 20.0
POLL_S = 0.001
NS_PER_US = 1_000


@dataclass(frozen=True, slots=True)
class Pull:
    """The figures of the transfer of a backlog over the link, measured from the first arrival."""

    messages_per_second: float
    from_cpu_us: float  # processor time of the sending daemon, per message
    to_cpu_us: float

    @property
    def cpu_us(self) -> float:
        """Returns the processor time of both daemons, per message."""
        return round(self.from_cpu_us + self.to_cpu_us, 2)


@dataclass(frozen=True, slots=True)
class Pair:
    """The two daemons. Invariant: the link is stopped, except inside the block of started()."""

    source: Host
    to: Host

    def lead(self, address: str, connections: int = 1) -> None:
        """Sets the link's address to *address*, that of the other daemon or of a proxy."""
        self.source.ask(m.LinkAlter, TO, {"addresses": [address], "connections": connections})

    @contextmanager
    def started(self, connections: int = 1) -> Iterator[None]:
        """Runs the link until the block ends."""
        self.source.ask(m.LinkStart, TO)
        try:
            wait_until(
                lambda: self.show()["connections_up"] == connections, "the link did not connect"
            )
            yield
        finally:
            self.source.ask(m.LinkStop, TO)

    def show(self) -> dict[str, Any]:
        """Returns the row of the link."""
        row: dict[str, Any] = self.source.ask(m.LinkShow, TO)
        return row

    def await_stored(self, messages: int) -> None:
        """Returns once *messages* are stored at the far end and committed at the near end."""
        stored = f"the far end did not store {messages:,} messages"
        wait_until(lambda: self.to.depth(QUEUE) >= messages, stored)
        wait_until(lambda: not self.show()["waiting"], "the near end received no commit")

    def clear(self) -> None:
        """Removes the transferred messages."""
        self.to.ask(m.QueuePurge, QUEUE)
        self.to.wait_for_jobs()

    def pull(self, messages: int, size_bytes: int, say: Callable[[str], None]) -> Pull:
        """Preloads *messages* and transfers them. Returns the figures."""
        fill(self.source, REMOTE, messages, say, size_bytes)
        with Wire(self.source.address, "bench.control") as near, Wire(self.to.address, "c") as far:
            before_ns = self.source.cpu_ns(), self.to.cpu_ns()
            near.ask(m.LinkStart, TO)
            wait_until(lambda: far.ask(m.QueueShow, QUEUE)["depth"] > 0, "nothing arrived")
            there, start_s = far.ask(m.QueueShow, QUEUE)["depth"], time.monotonic()
            await_all(lambda: messages - far.ask(m.QueueShow, QUEUE)["depth"], near)
            seconds = time.monotonic() - start_s
            await_all(lambda: near.ask(m.LinkShow, TO)["waiting"], near)
            used_ns = self.source.cpu_ns() - before_ns[0], self.to.cpu_ns() - before_ns[1]
            near.ask(m.LinkStop, TO)
        self.clear()
        self.source.wait_for_jobs()
        cpu_us = (round(ns / NS_PER_US / messages, 2) for ns in used_ns)
        # If all messages arrived before the first check, the rate is that of one message.
        return Pull(round(max(messages - there, 1) / seconds), *cpu_us)


@contextmanager
def pair(directory: Path, environment: Mapping[str, str] | None = None) -> Iterator[Pair]:
    """Yields two daemons, with their data below *directory*, and a stopped link between them."""
    near = Host(directory / "from", FROM, environment)
    with near, Host(directory / "to", TO, environment) as to:
        to.ask(m.QueueCreate, QUEUE)
        to.ask(m.LinkAllow, FROM)
        near.ask(m.LinkCreate, TO, {"addresses": [to.address], "stopped": True})
        near.ask(m.QueueCreate, REMOTE)
        yield Pair(near, to)


def wait_until(is_so: Callable[[], bool], otherwise: str, wait_max_s: float = WAIT_MAX_S) -> None:
    """Returns once *is_so* returns true.

    Raises:
        LoadFailed: The time *wait_max_s* passed. The text of the error starts with *otherwise*.
    """
    deadline_s = time.monotonic() + wait_max_s
    while not is_so():
        if time.monotonic() > deadline_s:
            raise LoadFailed(f"{otherwise} after {wait_max_s:g} s")
        time.sleep(POLL_S)
