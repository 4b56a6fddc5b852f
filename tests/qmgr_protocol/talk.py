"""The byte examples of PROTOCOL.md: a conversation with the real queue manager, and a record."""

from collections.abc import Iterator
from typing import Any

from qmgr_protocol import layout, record
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.frame import FrameDecoder, encode
from qmgr_protocol.record import Fields
from qmgrd.core.peer import Peer
from tests.qmgr_protocol import golden
from tests.qmgrd.core.harness import Manager

WIDTH = 32  # number of bytes shown per line


def talk() -> str:
    """Returns a conversation in the form of PROTOCOL.md: sender, message and frame."""
    return "".join(f"{who} {shown}\n{_hex(data)}\n" for who, shown, data in _said())


def _said() -> Iterator[tuple[str, str, bytes]]:
    manager = Manager()
    manager.connect("operator").ask(m.QueueCreate, "ORDERS")
    client = _Client(manager)
    order = record.encode(Fields(b"two pears", correlation_id=b"4711"))
    yield from client.say(m.Hello(m.MAGIC, 1, 1, "client", "shop", software="example/1"))
    yield from client.say(m.ProducerOpen(1, golden.PRODUCER_ID))
    yield from client.say(m.Put(1, 1, 0, "ORDERS", [order]), m.Put(1, 2, 0, "ODRERS", [order]))
    yield from client.say(m.Get(2, "ORDERS", 10))
    ((queue_id, handle),) = client.handles
    yield from client.say(m.Settle(1, m.ACK, queue_id, handle))
    yield from client.say(m.Ping(7))
    yield from client.say(m.Goaway(0))


class _Client:
    """A client that communicates over the wire of the harness, and shows each frame."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.peer = Peer(
            2,
            manager.turns.intake,
            manager.config.limits,
            manager._welcome,
            manager.tokens,
            manager.mono_ms,
        )
        self.handles: list[tuple[int, bytes]] = []

    def say(self, *said: m.Message) -> Iterator[tuple[str, str, bytes]]:
        heard = b""
        for message in said:
            data = encode(layout.to_array(message))
            yield "dialler ", _shown(message), data
            heard += self.peer.receive(data, self.manager.mono_ms)
        outcome = self.manager.turn()
        sends = [message for number, message in outcome.sends if number == self.peer.number]
        heard += b"".join(map(self.peer.encode, sends))
        decoder = FrameDecoder(2**20)
        decoder.feed(heard)
        for array, _ in decoder.drain():
            message = layout.parse(array)
            if type(message) is m.Deliver:
                self.handles = [(message.queue_id, x[: m.HANDLE.size]) for x in message.items]
            yield "listener", _shown(message), encode(layout.to_array(message))


def _shown(message: m.Message) -> str:
    """Returns *message* on one line, without fields that have their default values."""
    kind = type(message)
    defaults = kind._field_defaults
    fields = [
        f"{name}={_value(name, value)}"
        for name, value in zip(kind._fields, message, strict=True)
        if name not in defaults or value != defaults[name]
    ]
    return f"{kind.__name__} {' '.join(fields)}"


def _value(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if name in ("records", "items"):
        return f"[{', '.join(f'{len(item)} bytes' for item in value)}]"
    if name == "refused":
        return f"[{', '.join(f'[{i}, {ErrorCode(code).name}, ...]' for i, code, _ in value)}]"
    return repr(value).replace("'", '"')


def _hex(data: bytes) -> str:
    lines = [data[at : at + WIDTH].hex() for at in range(0, len(data), WIDTH)]
    return "\n".join(f"    {line}" for line in lines)


def dissected() -> str:
    """Returns a record, with one line per field."""
    fields = golden.RECORDS["a correlation id"]._replace(uid=golden.UID)
    data = record.encode(fields)
    head = record.check(data)
    origin, tail = head.origin_length, len(data) - 8
    body = 24 + head.correlation_length
    parts = [
        (0, 4, "checksum"),
        (4, 5, f"origin_length {origin}"),
        (5, 6, "version 1"),
        (6, 7, "priority 4"),
        (7, 8, "flags"),
        (8, 16, "expiry_ms, 0: never"),
        (16, 17, f"correlation_length {head.correlation_length}"),
        (17, 18, "group_flags"),
        (18, 20, "envelope_length"),
        (20, 24, f"body_length {head.body_length}"),
        (24, body, f"correlation id {fields.correlation_id.decode()}"),
        (body, tail - origin, f"body {fields.body.decode()}"),
        (tail - origin, tail, f"origin {golden.UID.origin}"),
        (tail, len(data), f"timestamp {golden.UID.timestamp}"),
    ]
    return "".join(f"{a:4}  {data[a:b].hex():22}{what}\n" for a, b, what in parts)
