"""Connections: byte streams that keep their order, can be late or stall, and break at any byte.

    port A ──send──▶ Flow to B (in flight) ──deliver──▶ B.received
    port B ──send──▶ Flow to A (in flight) ──deliver──▶ A.received

Only faults of TCP occur: bytes are never lost, duplicated or reordered inside a connection. A cut
loses all bytes in flight after a certain byte. Each end notices the cut at a different time. A dark
wire drops all bytes without notice, like an unplugged cable.
"""

from random import Random
from typing import Protocol


class Port(Protocol):
    """One end of a connection."""

    def received(self, data: bytes) -> None:
        """Receives bytes from the other end."""

    def lost(self, why: str) -> None:
        """Learns, once, that the connection is closed."""


class Flow:
    """The bytes in flight to one port. ``end`` is the reason why no bytes follow ``data``."""

    __slots__ = ("clogged", "data", "end", "over", "port")

    def __init__(self, port: Port) -> None:
        self.port = port
        self.data = bytearray()
        self.end = ""
        self.over = False  # True if the port knows that the connection is closed
        self.clogged = False

    def deliver(self, size: int) -> None:
        """Delivers the next *size* bytes, or the information that no more bytes follow."""
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
        """True if both ends know that the connection is closed."""
        return self.flows[0].over and self.flows[1].over

    def flow_to(self, port: Port) -> Flow:
        """Returns the flow to *port*."""
        return self.flows[0] if self.flows[0].port is port else self.flows[1]

    def flow_from(self, port: Port) -> Flow:
        """Returns the flow from *port*."""
        return self.flows[1] if self.flows[0].port is port else self.flows[0]

    def send(self, port: Port, data: bytes) -> None:
        """Sends bytes from *port*; drops them if either end has closed."""
        flow = self.flow_from(port)
        if not (flow.end or flow.over or self.dark or self.flow_to(port).end):
            flow.data += data

    def close(self, port: Port) -> None:
        """Closes *port* cleanly. Bytes that it sent arrive, and bytes sent to it are dropped."""
        own, other = self.flow_to(port), self.flow_from(port)
        own.data.clear()
        own.clogged = False
        own.end = own.end or "closed here"
        if not self.dark:
            other.end = other.end or "the peer closed the connection"

    def cut(self, random: Random) -> None:
        """Breaks the connection. Each end receives a random number of the bytes in flight."""
        for flow in self.flows:
            if flow.data:
                del flow.data[random.randrange(len(flow.data) + 1) :]
            flow.end = flow.end or "connection reset"

    def go_dark(self) -> None:
        """Drops all bytes from now on, without notice."""
        self.dark = True
        for flow in self.flows:
            flow.data.clear()

    def vanish(self, port: Port, random: Random, *, silently: bool) -> None:
        """Removes *port* with its process; *silently* if its machine also stops."""
        own, other = self.flow_to(port), self.flow_from(port)
        own.over = True
        own.data.clear()
        if other.data:
            del other.data[random.randrange(len(other.data) + 1) :]
        if silently:
            self.dark = True
        elif not self.dark:
            other.end = other.end or "connection reset by a crash"
