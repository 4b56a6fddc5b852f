"""Connections: streams of bytes that keep their order, come late, stall, and break at any byte.

    port A ──send──▶ Flow to B (in flight) ──deliver──▶ B.received
    port B ──send──▶ Flow to A (in flight) ──deliver──▶ A.received

TCP's faults, and no others: bytes are never lost, doubled or reordered inside a connection. A cut
loses what is in flight from some byte on, and each end learns of it at a time of its own. A dark
wire swallows everything and tells nobody, like a cable that was pulled out.
"""

from random import Random
from typing import Protocol


class Port(Protocol):
    """One end of a connection."""

    def received(self, data: bytes) -> None:
        """Take bytes of the other end."""

    def lost(self, why: str) -> None:
        """Take note, once, that the connection is gone."""


class Flow:
    """What is in flight to one port. ``end`` is why nothing follows behind ``data``."""

    __slots__ = ("clogged", "data", "end", "over", "port")

    def __init__(self, port: Port) -> None:
        self.port = port
        self.data = bytearray()
        self.end = ""
        self.over = False  # the port knows that it is gone
        self.clogged = False

    def deliver(self, size: int) -> None:
        """Hand the next *size* bytes over, or the news that there are no more."""
        if self.data:
            chunk = bytes(self.data[:size])
            del self.data[:size]
            self.port.received(chunk)
        elif self.end and not self.over:
            self.over = True
            self.port.lost(self.end)


class Wire:
    """One connection between two ports."""

    __slots__ = ("dark", "flows")

    def __init__(self, near: Port, far: Port) -> None:
        self.flows = (Flow(near), Flow(far))
        self.dark = False

    @property
    def over(self) -> bool:
        """Whether both ends know that it is gone."""
        return self.flows[0].over and self.flows[1].over

    def flow_to(self, port: Port) -> Flow:
        """Return what flows to *port*."""
        return self.flows[0] if self.flows[0].port is port else self.flows[1]

    def flow_from(self, port: Port) -> Flow:
        """Return what flows from *port*."""
        return self.flows[1] if self.flows[0].port is port else self.flows[0]

    def send(self, port: Port, data: bytes) -> None:
        """Put bytes of *port* in flight; of a port that has closed, or to one that has, nowhere."""
        flow = self.flow_from(port)
        if not (flow.end or flow.over or self.dark or self.flow_to(port).end):
            flow.data += data

    def close(self, port: Port) -> None:
        """Have *port* close in good order: what it sent arrives, what is sent to it is void."""
        own, other = self.flow_to(port), self.flow_from(port)
        own.data.clear()
        own.clogged = False
        own.end = own.end or "closed here"
        if not self.dark:
            other.end = other.end or "the peer closed the connection"

    def cut(self, random: Random) -> None:
        """Break it: of what is in flight each end gets what comes before some byte."""
        for flow in self.flows:
            if flow.data:
                del flow.data[random.randrange(len(flow.data) + 1) :]
            flow.end = flow.end or "connection reset"

    def go_dark(self) -> None:
        """Swallow all from now on and tell nobody."""
        self.dark = True
        for flow in self.flows:
            flow.data.clear()

    def vanish(self, port: Port, random: Random, *, silently: bool) -> None:
        """Take *port* away with its process; *silently* if its machine goes too."""
        own, other = self.flow_to(port), self.flow_from(port)
        own.over = True
        own.data.clear()
        if other.data:
            del other.data[random.randrange(len(other.data) + 1) :]
        if silently:
            self.dark = True
        elif not self.dark:
            other.end = other.end or "connection reset by a crash"
