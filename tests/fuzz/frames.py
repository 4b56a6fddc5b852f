"""Input generated from one seed: messages of a careless or hostile peer, and damaged bytes."""

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

from qmgr_protocol import layout, record
from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.frame import LENGTH, encode
from qmgr_protocol.record import Fields, Uid
from qmgr_protocol.transitions import FROM_DIALLER

STORE_IDS = (b"S" * 16, b"T" * 16, bytes(16))
PRODUCERS = (b"p" * 16, b"q" * 16)
NAMES = (
    "Q1",
    "Q2",
    "Q3",
    "Q1@NYC",
    "Q2@NYC",
    "@NYC",
    "@BOS",
    "NYC",
    "BOS",
    "QM1",
    "NONE",
    "",
    "bad name",
    "x" * 1_024,
    "a@b@c",
    "\x00\n\u202e",
    "/a/b",
    "/a/b",
    "/a",
    "/a/+",
    "C:s1",
    "C:s2",
    ":p@NYC",
    "SYSTEM.PUBLICATIONS",
)
TOPICS = ("a/b", "a", "a/+", "a/#", "#", "b", "", "a//b", "/", "a@b", "x" * 1_024)
SUBSCRIPTIONS = ("", "C:s1", "C:s2", ":p@NYC", "~1-0.1", "C:", "Q1")
EDGES = (0, 1, 2, 9, 255, 2**16, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -1)
ODD_MAX_BYTES = 300_000
_USUAL: dict[str, tuple[Any, ...]] = {
    "connection": tuple(range(1_000_001, 1_000_030)),  # attackers' connections, and links
    "producer_id": PRODUCERS,
    "directory": ("/tmp/never", "relative", ""),
    "resume": (False, False, True),
    "purge": (False, False, True),
    "messages_max": (1, 2, 10, 1_000),
    "messages": (1, 2, 10, 1_000),
    "limit": (1, 2, 10, 1_000),
    "wait_ms": (0, 0, 5, 1_000, m.WAIT_MAX_MS),
    "lease_ms": (0, 1, 200, m.LEASE_MAX_MS),
    "unit": (1, 1, 2, 3),
    "puts": (0, 1, 2),
    "gets": (0, 1, 2),
    "where": ("", "", "priority > 4", "color = 'red'", "((((", "x LIKE '%'", "x" * 4_096),
    "correlation_id": (b"", b"", b"c", b"c" * 64),
    "group_id": (b"", b"", b"g" * 24),
    "uid": (b"", b"", b"QM1" + bytes(8), bytes(72)),
    "delayed": (False, False, True),
    "copy": (False, True),
    "rate": (0, 1, 1_000),
    "retries_max": (0, 1, 3),
    "job": (1, 2, 3, 99),
    "topic": TOPICS,
    "cursor": ("A", "B", "", "bad name", "x" * 64, "x" * 1_024),
    "position": (0, 0, 1, 2, 5, 50, 2**62),
    "until": (0, 0, 3),
    "subscription": SUBSCRIPTIONS,
    "subscriptions": ([], [], ["C:s1"], ["C:s2", ""]),
    "drop": (False, False, True),
    "retained": (True, False),
}
_ACTIONS = (m.ACK, m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT, m.RENEW)
_LIKELY = (
    m.Put,
    m.Put,
    m.Put,
    m.Put,
    m.Get,
    m.Settle,
    m.Settle,
    m.Consume,
    m.Credit,
    m.UnitBegin,
    m.UnitPut,
    m.UnitCommit,
)
_FIRST = b"n,,n=app,r=nonceOfTheClient"  # first message of a login
_REQUESTS = sorted(FROM_DIALLER - {m.LinkOpen}, key=lambda kind: layout.NUMBERS[kind])


class Maker:
    """Generates input. The maker remembers replies, so that it can send them at the wrong time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.handles: list[tuple[int, bytes]] = [(1, m.HANDLE.pack(4, 1, 1))]
        # the open streams of the current connection, each with its next id
        self.streams: dict[int, int] = {}
        self._makers: dict[type[Any], Callable[[], Any]] = {
            m.Hello: self._hello,
            m.AuthAnswer: self._auth_answer,
            m.Piece: self._piece,
            m.Put: self._put,
            m.Settle: self._settle,
            m.UnitPut: self._unit_put,
            m.UnitCommit: self._unit_commit,
            m.QueueMove: self._queue_move,
            m.LinkOpen: self._link_open,
            m.QueueCreate: lambda: m.QueueCreate(self.id(), self.name(), self._attributes()),
            m.QueueAlter: lambda: m.QueueAlter(self.id(), self.name(), self._attributes()),
            m.TemplateSet: lambda: m.TemplateSet(self.id(), self.pattern(), self._attributes()),
            m.Subscribe: self._subscribe,
            m.TopicSet: lambda: m.TopicSet(self.id(), rng.choice(TOPICS), self._attributes()),
            m.LinkCreate: lambda: m.LinkCreate(self.id(), *self._link()),
            m.LinkAlter: lambda: m.LinkAlter(self.id(), *self._link()),
        }

    def frame(self) -> bytes:
        """Returns a frame that is valid, altered, damaged or expensive."""
        array = layout.to_array(self.message(self.kind()))
        pick = self.rng.random()
        if pick < 0.4:
            return encode(array)
        if pick < 0.7:
            return encode(self._bent(list(array)))
        if pick < 0.97:
            return self.damaged(encode(array))
        return self.rng.choice((self._garbage, self._odd))()

    def handshake(self) -> list[bytes]:
        """Returns frames of a login. Half of the logins begin well, so their answers are read."""
        rng = self.rng
        frames = [self._handshake_frame() for _ in range(rng.randint(1, 5))]
        if rng.random() < 0.5:
            return frames
        hello = m.Hello(
            m.MAGIC, 1, 1, "client", "app", auth_method="scram-sha-256", auth_data=_FIRST
        )
        return [encode(layout.to_array(x)) for x in (hello, self._auth_answer())] + frames

    def _handshake_frame(self) -> bytes:
        """Returns a frame of a login, which may be altered or damaged."""
        rng = self.rng
        message = rng.choice((self._login, self._login, self._auth_answer))()
        array, pick = layout.to_array(message), rng.random()
        if pick < 0.5:
            return encode(array)
        return encode(self._bent(list(array))) if pick < 0.7 else self.damaged(encode(array))

    def request(self) -> bytes:
        """Returns a frame that a client may send, although rarely at the right time."""
        kind = self.rng.choice(_LIKELY if self.rng.random() < 0.75 else _REQUESTS)
        return encode(layout.to_array(self.message(kind)))

    def kind(self) -> type[Any]:
        """Returns a random type of message."""
        return self.rng.choice(list(layout.NUMBERS))

    def message(self, kind: type[Any]) -> Any:
        """Returns a message of *kind* whose fields are in range. Some values are plausible."""
        maker = self._makers.get(kind)
        if maker is not None:
            return maker()
        checks = layout.checks_of(kind)
        fields = []
        for name, check in zip(kind._fields, checks, strict=True):
            value = self._value(kind, name)
            fields.append(value if check(value) == "" else self._fallback(check))
        return kind(*fields)

    def _fallback(self, check: Callable[[Any], str]) -> Any:
        """Returns the first simple value that *check* accepts."""
        plain: tuple[Any, ...] = (1, "x", False, [], {}, b"", b"x" * 16, b"x" * 24, None)
        return next(value for value in plain if check(value) == "")

    def _value(self, kind: type[Any], name: str) -> Any:
        rng = self.rng
        if name in _USUAL:
            return rng.choice(_USUAL[name])
        if name in ("queue", "link", "pattern"):
            return self.name()
        if kind is m.HistoryRead and name == "after":
            return rng.choice((0, 0, 1, 5, 2**62))
        if name == "after":
            place: Any = [rng.randrange(12), rng.choice(EDGES)]
            return rng.choice((None, place)) if kind is m.Browse else self.name()
        if name == "value":
            return self.odd()
        if name.endswith("_id") or name == "stream":
            return self.id()
        return rng.choice((*EDGES, self.id()))

    def id(self) -> int:
        """Returns the id of a request or a stream, often one in use."""
        return self.rng.randint(1, 12 if self.rng.random() < 0.5 else 2**32 - 1)

    def name(self) -> str:
        pick = self.rng.random()
        return self.rng.choice(NAMES[:2] if pick < 0.6 else NAMES[:6] if pick < 0.9 else NAMES)

    def _hello(self) -> m.Hello:
        rng = self.rng
        role = rng.choice(("client", "client", "queue-manager", "root"))
        store_id = rng.choice(STORE_IDS)
        return m.Hello(
            rng.choice((m.MAGIC, m.MAGIC, "http")),
            rng.choice((1, 1, 2)),
            rng.choice((1, 9)),
            role,
            self.name(),
            [],
            store_id,
            auth_method=rng.choice(("none", "none", "none", "scram-sha-256", "x" * 99)),
            piece_max_bytes=rng.choice((0, 100_000)),
            auth_data=self._scram(_FIRST),
        )

    def _login(self) -> m.Hello:
        """Returns a hello of a client that logs in."""
        method = self.rng.choice(("none", *["scram-sha-256"] * 6, "", "plain"))
        data = self._scram(_FIRST)
        return m.Hello(m.MAGIC, 1, 1, "client", "app", auth_method=method, auth_data=data)

    def _auth_answer(self) -> m.AuthAnswer:
        proof = b"c=biws,r=nonceOfTheClientnonceOfTheServer,p=" + b"A" * 43 + b"="
        return m.AuthAnswer(self._scram(proof))

    def _scram(self, data: bytes) -> bytes:
        """Returns *data*, of which some attributes may be changed, repeated or moved."""
        rng = self.rng
        if rng.random() < 0.5:
            return data
        if rng.random() < 0.3:
            return self.damaged(data)[:1_000]
        odd = [*data.split(b","), b"m=x", b"a=root", b"p=", b"i=1", b"", b"\xff", b"y", b"n=other"]
        return b",".join(rng.choice(odd) for _ in range(rng.randint(0, 5)))

    def _put(self) -> m.Put:
        rng = self.rng
        stream = rng.choice(list(self.streams) or [1]) if rng.random() < 0.98 else self.id()
        records = [self.record() for _ in range(rng.choice((0, 1, 1, 1, 2, 5)))]
        first_id = self.streams.get(stream, 1)
        if rng.random() < 0.2:
            first_id = rng.choice((1, first_id + 1, max(first_id - 2, 1), *EDGES[1:4]))
        if rng.random() < 0.01:
            first_id = rng.choice(EDGES[6:11])
        if stream in self.streams:
            self.streams[stream] = min(first_id + len(records), 2**63 - 1)
        seen = rng.choice((0, first_id - 1, first_id))
        extras, bodies = self._extras(len(records)), self._bodies(records)
        return m.Put(stream, first_id, seen, self.name(), records, extras, bodies)

    def _bodies(self, records: list[bytes]) -> list[list[int]]:
        """Returns rows that name bodies, and usually takes away the records in their places."""
        rng = self.rng
        if rng.random() < 0.9:
            return []
        index = rng.randrange(len(records) + 1)
        if index < len(records) and rng.random() < 0.9:
            records[index] = b""
        return [[index, rng.randint(1, m.BODIES_MAX)]] * rng.choice((1, 1, 1, 2))

    def _extras(self, count: int) -> list[list[Any]]:
        """Returns the extra fields of a link for *count* records. Usually, none are returned."""
        rng = self.rng
        if rng.random() < 0.9:
            return []
        known: dict[str, Any] = {
            m.EXTRA_EXPIRY_MS: rng.choice(EDGES[:11]),
            m.EXTRA_DELAY_MS: rng.choice(EDGES[:11]),
            m.EXTRA_NOTE: rng.choice((b"", pack({"code": 410, "queue": "Q1"}), b"\xc1")),
            "hue": 1,
        }
        chosen = rng.sample(sorted(known), rng.randrange(4))
        return [[rng.randrange(count + 2), {key: known[key] for key in chosen}]]

    def _unit_put(self) -> m.UnitPut:
        records = [self.record() for _ in range(self.rng.choice((0, 1, 1, 2)))]
        bodies = self._bodies(records)
        return m.UnitPut(self.id(), self._unit(), self.name(), records, bodies)

    def _unit_commit(self) -> m.UnitCommit:
        rng = self.rng
        stream = rng.choice(list(self.streams) or [1])
        seq_id = self.streams.get(stream, 1)
        if stream in self.streams:
            self.streams[stream] = min(seq_id + 1, 2**63 - 1)
        if rng.random() < 0.2:
            seq_id = rng.choice((1, max(seq_id - 1, 1), *EDGES[1:4]))
        puts, gets = rng.choice(((0, 0), (1, 0), (1, 1), (0, 1), (2, 2**32 - 1)))
        return m.UnitCommit(stream, seq_id, rng.choice((0, seq_id - 1)), self._unit(), puts, gets)

    def _unit(self) -> int:
        return self.rng.choice((1, 1, 1, 2, 3, 2**32 - 1))

    def _queue_move(self) -> m.QueueMove:
        rng = self.rng
        target = rng.choice((self.name(), ""))
        where, copy = rng.choice(_USUAL["where"]), rng.choice((False, True))
        return m.QueueMove(self.id(), self.name(), target, where, rng.randrange(9), 0, copy)

    def record(self) -> bytes:
        """Returns a record, which may be stamped, oversized or damaged."""
        rng = self.rng
        size = rng.choice((0, 1, 10, 100, 5_000)) if rng.random() < 0.95 else 70_000
        uid = None
        if rng.random() < 0.4:
            uid = Uid(rng.choice(("QM1", "A", "B")), rng.choice((1, 2, 3, rng.randrange(10**6))))
        data = record.encode(
            Fields(
                bytes(size),
                rng.randrange(10),
                rng.randbytes(rng.randrange(9)),
                {},
                uid,
                expiry_ms=rng.choice((0, 0, 0, 1, 1_000, 2**63 - 1)),
                flags=rng.choice((0, 0, 0, rng.randrange(16))),
                delay_ms=rng.choice((0, 0, 0, 1, 1_000, record.DELAY_MAX_MS)),
            )
        )
        return self.damaged(data) if rng.random() < 0.1 else data

    def _piece(self) -> m.Piece:
        """Returns a piece, often the first of a body, or one that continues another piece."""
        rng = self.rng
        least = m.PIECE_LEAST_BYTES
        if rng.random() < 0.5:  # a complete record
            fields = Fields(bytes(least), rng.randrange(10), b"", {}, flags=rng.choice((0, 0, 2)))
            data = record.encode(fields)
            return m.Piece(rng.randint(1, m.BODIES_MAX), len(data), 0, data)
        size = rng.choice((least, least, 2 * least, 300_000, 2**32 - 1))
        offset = rng.choice((0, 0, 0, least, *EDGES[:11]))
        return m.Piece(
            rng.randint(1, m.BODIES_MAX), size, offset, bytes(rng.choice((0, 1, 4_000, least)))
        )

    def _settle(self) -> m.Settle:
        rng = self.rng
        queue_id, handle = rng.choice(self.handles[-50:])
        if rng.random() < 0.2:
            queue_id = rng.randint(1, 8)
        if rng.random() < 0.2:
            handle = m.HANDLE.pack(rng.randrange(256), rng.randint(1, 9), rng.choice(EDGES[:12]))
        handles = handle * rng.choice((0, 1, 1, 2))
        settle = m.Settle(rng.randint(1, 99), rng.choice(_ACTIONS), queue_id, handles)
        if rng.random() < 0.7:
            return settle
        return settle._replace(
            unit=rng.choice((0, self._unit())),
            delay_ms=rng.choice((-1, 0, 1, record.DELAY_MAX_MS)),
            lease_ms=rng.choice((0, 1, m.LEASE_MAX_MS)),
            reason=rng.choice(("", "R", "x" * 64)),
            text=rng.choice(("", "why", "x" * 1_000)),
        )

    def _subscribe(self) -> m.Subscribe:
        rng = self.rng
        where = rng.choice(_USUAL["where"]) if rng.random() < 0.3 else ""
        return m.Subscribe(
            self.id(),
            rng.choice(TOPICS),
            rng.choice(SUBSCRIPTIONS),
            where,
            self._attributes(),
            rng.random() < 0.5,
        )

    def _link_open(self) -> m.LinkOpen:
        stream_id = self.rng.choice(STORE_IDS) + self.rng.randrange(3).to_bytes(8, "big")
        return m.LinkOpen(self.id(), stream_id, 1, 1)

    def pattern(self) -> str:
        """Returns a pattern for names, which may be invalid."""
        return self.rng.choice(("*", "Q*", "*.*", "SYSTEM.*", "", "a b", self.name()))

    def _attributes(self) -> dict[str, Any]:
        rng = self.rng
        known = (
            "depth_max",
            "bytes_max",
            "lease_ms",
            "put_inhibit",
            "get_inhibit",
            "depth_mx",
            "alias_of",
            "retry_factor",
            "overflow",
            "backout_queue",
            "stopped",
            "",
            "redelivery_limit",
            "republish",
            "unused_expiry_ms",
            "accounting",
            "x" * 200,
        )
        values = (
            *EDGES[:11],
            "5",
            "Q",
            1.5,
            "refuse",
            "suspend",
            "schedule",
            "on",
            "off",
            None,
            True,
            False,
            [1],
            ["x"] * 100,
        )
        return {rng.choice(known): rng.choice(values) for _ in range(rng.choice((0, 0, 1, 1, 2)))}

    def _link(self) -> tuple[str, dict[str, Any]]:
        """Returns a name and attributes."""
        rng = self.rng
        addresses: list[Any] = [
            ["nyc:7470"],
            ["a:1", "b:2"],
            ["unix:/x"],
            [],
            ["x"],
            [1],
            "nyc:7470",
            None,
            ["x" * 999],
        ]
        attributes = {"addresses": rng.choice(addresses[:3] if rng.random() < 0.7 else addresses)}
        if rng.random() < 0.3:
            attributes |= self._attributes()
        return rng.choice(("NYC", "BOS", "QM1", "a b")), attributes

    # -- damage

    def _bent(self, array: list[Any]) -> list[Any]:
        """Returns *array* with one wrong element."""
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            place = rng.randint(0, len(array))
            action = rng.randrange(4)
            if action == 0:
                array[place : place + 1] = [self.odd()]
            elif action == 1:
                array.insert(place, self.odd())
            elif action == 2:
                del array[place:]
            else:
                array += [self.odd()]
        return array

    def odd(self) -> Any:
        """Returns an unexpected value."""
        rng = self.rng
        odd: tuple[Any, ...] = (
            *EDGES,
            True,
            None,
            1.5,
            float("nan"),
            "",
            "x",
            "x" * 5_000,
            b"",
            b"x" * 17,
            [],
            [[]],
            {},
            {"a": {}},
            [1, 2, 3],
            [b"", b"x"],
            [[1, 2, "x"]],
            {"depth_max": [1]},
            [1, 0, [], None, 10],
            [1, 5, [7], b"QM1" + bytes(8), 4],
            [1, 1, 1, 1, -1],
            "abcde",
            b"abcde",
            nested(rng.choice((3, 400, 500))),
            [None] * 5_000,
        )
        return rng.choice(odd)

    def damaged(self, data: bytes) -> bytes:
        """Returns *data* with some bytes changed, omitted, repeated or moved."""
        rng, damaged = self.rng, bytearray(data)
        for _ in range(rng.randint(1, 4)):
            if not damaged:
                break
            place = rng.randrange(len(damaged))
            action = rng.randrange(5)
            if action == 0:
                damaged[place] ^= 1 << rng.randrange(8)
            elif action == 1:
                damaged[place] = rng.choice((0x00, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xDC, 0xDD, 0xFF))
            elif action == 2:
                del damaged[place : place + rng.randint(1, 9)]
            elif action == 3:
                damaged[place:place] = damaged[place : place + rng.randint(1, 9)]
            else:
                damaged[place:place] = rng.randbytes(rng.randint(1, 5))
        if (
            rng.random() < 0.5 and len(damaged) > 4
        ):  # Otherwise, most frames would be refused because of their length.
            damaged[:4] = LENGTH.pack(len(damaged) - 4)
        return bytes(damaged)

    def _garbage(self) -> bytes:
        data = self.rng.randbytes(self.rng.randrange(200))
        return data if self.rng.random() < 0.5 else LENGTH.pack(len(data)) + data

    def _odd(self) -> bytes:
        """Returns a frame whose handling costs more than its size suggests."""
        rng = self.rng
        if rng.random() < 0.2:
            return encode([21, 1, 1, 0, "Q1", [bytes(ODD_MAX_BYTES)]])
        element = rng.choice((b"\x90", b"\x80", b"\xc0", b"\x91", b"\xdc\x4e\x20", b"\xa1x"))
        body = b"\x96\x15\x01\x01\x00\xa2Q1" + b"\xdd" + LENGTH.pack(20_000)
        body += element * rng.choice((10, 1_000, 20_000, ODD_MAX_BYTES // len(element)))
        return LENGTH.pack(len(body)) + body

    def chunks(self, data: bytes) -> list[bytes]:
        """Returns *data* in one piece or in several."""
        if self.rng.random() < 0.7 or not data:
            return [data]
        cuts = sorted(self.rng.randrange(len(data)) for _ in range(self.rng.randint(1, 5)))
        edges = [0, *cuts, len(data)]
        return [data[a:b] for a, b in pairwise(edges)]


def nested(depth: int) -> Any:
    """Returns an array that is nested *depth* levels deep."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def deep_frame(array: list[Any], depth: int) -> bytes:
    """Returns a frame whose last element is nested more deeply than a packer would allow."""
    body = bytes([0x90 + len(array) + 1]) + b"".join(map(pack, array)) + b"\x91" * depth + b"\xc0"
    return LENGTH.pack(len(body)) + body
