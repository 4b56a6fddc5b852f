"""The golden vectors in protocol/vectors/: their contents and their form.

Bytes are written as {"hex": "..."} and integers beyond 2**53 as {"integer": "..."}, so that JSON in
every language can represent them. `pytest tests/qmgr_protocol --rewrite` regenerates the files.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from qmgr_protocol import layout, record
from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.frame import LENGTH, encode
from qmgr_protocol.record import Fields, Uid

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"
STORE_ID = bytes(range(16))
SESSION = bytes(range(32))
PRODUCER_ID = bytes(range(16, 32))
STREAM_ID = STORE_ID + (7).to_bytes(8, "big")
UID = Uid("QM1", 1_700_000_000_000_001)
PUT_US = 1_700_000_000_000_500

RECORDS: dict[str, Fields] = {
    "minimal": Fields(b""),
    "a body": Fields(b"hello"),
    "stamped": Fields(b"hello", uid=UID),
    "priority 9": Fields(b"hello", priority=9),
    "a correlation id": Fields(b"hello", correlation_id=b"order-4711"),
    "an expiry": Fields(b"hello", expiry_ms=60_000),
    "an envelope": Fields(
        b"{}",
        envelope={
            "headers": {"tenant": "blue", "try": 1, "raw": b"\x00\xff"},
            "reply_to": "ANSWERS@NYC",
            "content_type": "application/json",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "tracestate": "vendor=1",
        },
    ),
    "first of a group": Fields(b"one", group=(bytes(range(24)), 1, False)),
    "last of a group": Fields(b"two", group=(bytes(range(24)), 2, True)),
    "everything": Fields(
        b"\x00\x01\x02",
        priority=0,
        correlation_id=b"c" * 64,
        envelope={"content_type": "application/octet-stream"},
        uid=Uid("Q" * 64, 2**63 - 1),
        group=(b"g" * 24, 999_999_999, True),
        expiry_ms=2**63 - 1,
    ),
    "a delay": Fields(b"hello", delay_ms=3_600_000),
    "a delay in a group": Fields(
        b"one", group=(bytes(range(24)), 1, False), delay_ms=5_000, correlation_id=b"c"
    ),
    "priority of the queue, not persistent, a report": Fields(b"hello", flags=0x07),
    "one that its topic retains": Fields(b"20 minutes late", flags=record.FLAG_RETAINED),
}
_RECORD = record.encode(RECORDS["stamped"])
_ITEM = m.DELIVERY.pack(4, 17, (3 << 32) + 5, 2, 1, m.STATE_REDELIVERED, PUT_US) + _RECORD
_HANDLE = m.HANDLE.pack(4, 17, (3 << 32) + 5)
_TOPIC = b"flights/JFK/UA"
_PUBLISHED = (
    m.DELIVERY.pack(
        4,
        17,
        (3 << 32) + 5,
        1,
        1,
        m.STATE_TOPIC | m.STATE_EXPIRES | m.STATE_NOTED | m.STATE_REDELIVERED | m.STATE_REPUBLISHED,
        PUT_US,
    )
    + _RECORD
    + bytes([len(_TOPIC)])
    + _TOPIC
    + m.REMAINING.pack(59_000)
    + pack({"retries": 1})
)

_VERIFIER = (
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)

MESSAGES: dict[str, m.Message] = {
    "Hello": m.Hello(m.MAGIC, 1, 1, "client", "orders-service-7"),
    "Hello of a queue manager": m.Hello(
        m.MAGIC, 1, 1, "queue-manager", "QM1", [], STORE_ID, 3, "qmgrd/0.1.0"
    ),
    "Hello that resumes a session": m.Hello(
        m.MAGIC, 1, 1, "client", "orders-service-7", session=SESSION
    ),
    "Hello that accepts pieces": m.Hello(
        m.MAGIC, 1, 1, "client", "orders-service-7", piece_max_bytes=252_000
    ),
    "Welcome": m.Welcome(1, "QM1", STORE_ID, 3, [], "qmgrd/0.1.0"),
    "Welcome that accepts pieces": m.Welcome(1, "QM1", STORE_ID, 3, piece_max_bytes=252_000),
    "Welcome with a session": m.Welcome(1, "QM1", STORE_ID, 3, [], "qmgrd/0.1.0", session=SESSION),
    "Hello with a login": m.Hello(
        m.MAGIC,
        1,
        1,
        "client",
        "orders-service-7",
        auth_method="scram-sha-256",
        auth_data=b"n,,n=orders,r=rOprNGfwEbeRWgbNEkqO",
    ),
    "Welcome after a login": m.Welcome(
        1,
        "QM1",
        STORE_ID,
        3,
        session=SESSION,
        auth_data=b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
    "AuthChallenge": m.AuthChallenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    ),
    "AuthAnswer": m.AuthAnswer(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ),
    "TokenRenew": m.TokenRenew(9, b"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhcHAifQ.c2lnbmF0dXJl"),
    "Goaway": m.Goaway(ErrorCode.SHUTTING_DOWN, "the queue manager stops", 1_000),
    "Ping": m.Ping(123_456),
    "Pong": m.Pong(123_456),
    "Ok": m.Ok(9, {"messages": 3}),
    "Ok with nothing": m.Ok(9),
    "Error": m.Error(9, ErrorCode.QUEUE_UNKNOWN, 2, 0, "queue ORDERS does not exist here"),
    "Cancel": m.Cancel(9),
    "Ended": m.Ended(9, ErrorCode.CANCELLED, "cancelled by the client"),
    "ProducerOpen": m.ProducerOpen(1, PRODUCER_ID),
    "ProducerOpen that resumes": m.ProducerOpen(1, PRODUCER_ID, True),
    "Put": m.Put(1, 1, 0, "ORDERS", [record.encode(RECORDS["a body"])]),
    "Put of two over a link": m.Put(1, 501, 0, "ORDERS", [_RECORD, _RECORD]),
    "Put of a record with a remaining time": m.Put(
        1,
        501,
        0,
        "ORDERS",
        [_RECORD, _RECORD],
        [[1, {m.EXTRA_EXPIRY_MS: 59_000, m.EXTRA_DELAY_MS: 1_000, m.EXTRA_NOTE: b"\x80"}]],
    ),
    "Put without records": m.Put(1, 1, 0, "ORDERS", []),
    "Put to a topic": m.Put(1, 1, 0, "/flights/JFK/UA", [record.encode(RECORDS["a body"])]),
    "Piece": m.Piece(1, 300_000, 252_000, b"the end"),
    "Put of a record that was sent in pieces": m.Put(1, 1, 0, "ORDERS", [b""], [], [[0, 1]]),
    "Committed": m.Committed(1, 1, [], [[1, UID.timestamp, 1]]),
    "Committed with a refusal": m.Committed(
        1, 3, [[2, ErrorCode.QUEUE_FULL, "queue ORDERS holds 10 messages, at most 10"]], []
    ),
    "Committed with gaps": m.Committed(1, 3, held=[[5, 2], [9, 1]], taken=7),
    "Committed of publications": m.Committed(
        1, 3, stamped=[[1, UID.timestamp, 3]], matched=[[1, 2, 1_000], [3, 1, 0]]
    ),
    "Get": m.Get(2, "ORDERS"),
    "Get that waits": m.Get(2, "ORDERS", 100, 5_000, 60_000, 65_536),
    "Get by its UID": m.Get(2, "ORDERS", uid=record.encode_uid(UID)),
    "Get of the next of a group": m.Get(
        2, "ORDERS", 1, 5_000, order=m.LOGICAL, all_available=True, reader=1
    ),
    "Get of one member of a group": m.Get(
        2, "ORDERS", group_id=bytes(range(24)), number=4, reader=1
    ),
    "UnitBegin": m.UnitBegin(12, 1),
    "UnitPut": m.UnitPut(13, 1, "ORDERS", [record.encode(RECORDS["a body"])]),
    "UnitPut of a record that was sent in pieces": m.UnitPut(13, 1, "ORDERS", [b""], [[0, 1]]),
    "UnitCommit": m.UnitCommit(1, 7, 6, 1, 2, 1),
    "UnitBackout": m.UnitBackout(14, 1),
    "UnitBackout with a reason": m.UnitBackout(15, 2, "ValueError", "carrier XX is not known"),
    "Consume with a selector": m.Consume(3, "ORDERS", 200, 1_048_576, 0, "color = 'red'"),
    "Consume": m.Consume(3, "ORDERS", 200, 1_048_576),
    "Consume whose leases start later": m.Consume(3, "ORDERS", 8, 1_048_576, start_later=True),
    "Consume pinned groups": m.Consume(3, "ORDERS", 200, 1_048_576, order=m.PINNED),
    "Credit": m.Credit(3, 100, 524_288),
    "Deliver": m.Deliver(3, 12, [_ITEM]),
    "Deliver of a record that was sent in pieces": m.Deliver(
        3, 12, [_ITEM[: m.DELIVERY_BYTES]], [[0, 1]]
    ),
    "Deliver of a publication": m.Deliver(3, 12, [_PUBLISHED]),
    "Settle": m.Settle(1, m.ACK, 12, _HANDLE),
    "Settle that releases two": m.Settle(2, m.RELEASE, 12, _HANDLE * 2),
    "Settle in a unit of work": m.Settle(3, m.ACK, 12, _HANDLE, 1),
    "Settle that rejects": m.Settle(
        4, m.REJECT, 12, _HANDLE, reason="BAD_CARRIER", text="carrier XX is not known"
    ),
    "Settle that renews": m.Settle(5, m.RENEW, 12, _HANDLE, lease_ms=60_000),
    "Settled": m.Settled(1),
    "Settled with an exception": m.Settled(2, [[2, 1, ErrorCode.LEASE_LOST]]),
    "Browse": m.Browse(4, "ORDERS"),
    "Browse after a position": m.Browse(4, "ORDERS", [4, 17], 10, 65_536),
    "Browse by a correlation id": m.Browse(4, "ORDERS", correlation_id=b"order-4711"),
    "Browse in the order of arrival": m.Browse(4, "ORDERS", [0, 17, 0, m.ARRIVAL], order=m.ARRIVAL),
    "QueueCreate": m.QueueCreate(5, "ORDERS", {"depth_max": 1_000}),
    "QueueCreate of a remote queue": m.QueueCreate(5, "FLIGHTS@NYC"),
    "QueueAlter": m.QueueAlter(5, "ORDERS", {"depth_max": None, "put_inhibit": True}),
    "QueueDelete": m.QueueDelete(5, "ORDERS", True),
    "QueueList": m.QueueList(5, "ORDERS", 100),
    "QueueShow": m.QueueShow(5, "ORDERS"),
    "QueuePurge": m.QueuePurge(5, "ORDERS"),
    "QueuePurge by a selector": m.QueuePurge(5, "ORDERS", "priority < 3", 100),
    "QueueMove": m.QueueMove(5, "ORDERS", "OLD_ORDERS", "priority < 3", 1_000, 50, True),
    "QueueMove back to the origins": m.QueueMove(5, "SYSTEM.DEAD.LETTERS", ""),
    "LinkOpen": m.LinkOpen(1, STREAM_ID, 501, 600),
    "LinkOpen of a path": m.LinkOpen(1, STREAM_ID, 501, 600, bytes(range(16)), 3, True, 540),
    "CommitAsk": m.CommitAsk(7),
    "LinkFetch": m.LinkFetch(2, 3, 8_388_608, 4_194_304, 4_096, 16_777_216),
    "LinkCreate": m.LinkCreate(6, "NYC", {"addresses": ["nyc.example:7470"]}),
    "LinkDelete": m.LinkDelete(6, "NYC", False),
    "LinkList": m.LinkList(6),
    "LinkShow": m.LinkShow(6, "NYC"),
    "LinkStart": m.LinkStart(6, "NYC"),
    "LinkStop": m.LinkStop(6, "NYC"),
    "LinkAllow": m.LinkAllow(6, "FRA"),
    "LinkAllow of one store": m.LinkAllow(6, "FRA", STORE_ID),
    "LinkDisallow": m.LinkDisallow(6, "FRA"),
    "LinkAlter": m.LinkAlter(6, "NYC", {"addresses": ["nyc2.example:7470"]}),
    "Blocked": m.Blocked(1, 502, ErrorCode.QUEUE_FULL, 1_000, "queue ORDERS is full"),
    "Status": m.Status(7),
    "Snapshot": m.Snapshot(8, "/var/tmp/snapshot"),
    "Snapshot at a rate": m.Snapshot(8, "s3://bucket/snapshot", 1 << 20),
    "ConnectionList": m.ConnectionList(10),
    "ConnectionList after a number": m.ConnectionList(10, 17, 100),
    "ConnectionClose": m.ConnectionClose(11, 17),
    "AsideList": m.AsideList(12),
    "AsideList after a number": m.AsideList(12, 17, 100),
    "AsideRetry": m.AsideRetry(13, 17),
    "AsideDrop": m.AsideDrop(14, 17),
    "SwitchOver": m.SwitchOver(14),
    "SwitchOver to a member": m.SwitchOver(14, "nyc2", 3),
    "JobList": m.JobList(15),
    "JobShow": m.JobShow(15, (3 << 40) + 1),
    "JobCancel": m.JobCancel(15, (3 << 40) + 1),
    "UserCreate": m.UserCreate(
        30, "orders", {"verifier": _VERIFIER, "roles": ["producer"], "enabled": True}
    ),
    "UserAlter": m.UserAlter(30, "orders", {"enabled": False}),
    "UserDelete": m.UserDelete(30, "orders"),
    "UserList": m.UserList(30, "orders", 100),
    "UserShow": m.UserShow(30, "orders"),
    "UserShow with its verifier": m.UserShow(30, "orders", True),
    "RoleCreate": m.RoleCreate(30, "shipping"),
    "RoleDelete": m.RoleDelete(30, "shipping"),
    "RoleList": m.RoleList(30),
    "RoleShow": m.RoleShow(30, "shipping"),
    "GrantCreate": m.GrantCreate(30, "orders", "", ["put", "browse"], "queue", "ORDERS.*"),
    "GrantCreate to a role": m.GrantCreate(30, "", "shipping", ["show"], "manager"),
    "GrantDelete": m.GrantDelete(30, "orders", "", ["browse"], "queue", "ORDERS.*"),
    "AccessExplain": m.AccessExplain(
        30, "orders", "QueueMove", {"queue": "ORDERS", "target": "OLD_ORDERS"}
    ),
    "AccessRules": m.AccessRules(30),
    "AccessTest": m.AccessTest(30, "10.1.2.3", "orders", "scram-sha-256", "required"),
    "TemplateSet": m.TemplateSet(11, "APP.*", {"retry_factor": 1.5}),
    "TemplateDelete": m.TemplateDelete(11, "APP.*"),
    "TemplateList": m.TemplateList(11),
    "GroupNew": m.GroupNew(12),
    "ReaderClose": m.ReaderClose(12, 1),
    "GroupList": m.GroupList(12, "ORDERS", bytes(range(24)), 100, True),
    "GroupShow": m.GroupShow(12, "ORDERS", bytes(range(24)), 1),
    "GroupAlter": m.GroupAlter(12, "ORDERS", bytes(range(24)), "skip", 7),
    "Subscribe": m.Subscribe(16, "flights/#"),
    "Subscribe to a durable subscription": m.Subscribe(
        16, "flights/+/UA", "BILLING:late", "minutes > 15", {"redelivery_limit": 3}, False
    ),
    "Subscribe a proxy": m.Subscribe(16, "flights/#", ":flights@NYC"),
    "Unsubscribe": m.Unsubscribe(16, "BILLING:late"),
    "SubscriptionList": m.SubscriptionList(16),
    "SubscriptionList of a topic": m.SubscriptionList(16, "BILLING:late", 100, "flights/JFK/UA"),
    "SubscriptionHealthy": m.SubscriptionHealthy(16, "BILLING:late"),
    "TopicSet": m.TopicSet(17, "flights", {"redelivery_limit": 3, "republish": "healthy"}),
    "TopicDelete": m.TopicDelete(17, "flights"),
    "TopicDelete of a retained publication": m.TopicDelete(17, "flights/JFK/UA", True),
    "TopicList": m.TopicList(17, "flights", 100),
    "TopicShow": m.TopicShow(17, "flights/JFK/UA"),
    "TopicLacks": m.TopicLacks(17, record.encode_uid(UID)),
    "RepublishList": m.RepublishList(18),
    "RepublishList after a position": m.RepublishList(
        18, [17, 12], 100, "dead_reason = 'BAD_CARRIER'", record.encode_uid(UID), "BILLING:late"
    ),
    "Republish": m.Republish(18),
    "Republish of some": m.Republish(
        18, True, record.encode_uid(UID), "minutes > 15", ["BILLING:late", "CRM:late"], 50, 1_000
    ),
    "HistoryRead": m.HistoryRead(19),
    "HistoryRead of some": m.HistoryRead(19, 7, 9, 65_536),
    "HistoryShow": m.HistoryShow(19),
    "CursorCommit": m.CursorCommit(19, "LAKE", 1_234),
    "CursorDelete": m.CursorDelete(19, "LAKE"),
}

# Messages that a newer peer may send, with the messages that this version reads from them
NEWER: dict[str, tuple[list[Any], m.Message]] = {
    "a hello with three more fields": (
        [
            1,
            "qmgr",
            1,
            9,
            "client",
            "a",
            ["streams", "topics"],
            b"",
            0,
            "qmgr-client/9",
            8_388_608,
            "none",
            b"",
            b"",
            0,
            {"zone": "b"},
            1,
            None,
        ],
        m.Hello("qmgr", 1, 9, "client", "a", ["streams", "topics"], b"", 0, "qmgr-client/9"),
    ),
    "a hello of only the required fields": (
        [1, "qmgr", 1, 1, "client", "a"],
        m.Hello("qmgr", 1, 1, "client", "a"),
    ),
    "a ping without its number": ([4], m.Ping(0)),
    "a commit without its lists": ([22, 1, 5], m.Committed(1, 5)),
    "a commit whose rows are longer": (
        [22, 1, 5, [[2, 303, "full", 1_000]], [[1, 7, 1, 9]], [], 0, [[1, 1, 3, 2]], "newer"],
        m.Committed(1, 5, [[2, 303, "full", 1_000]], [[1, 7, 1, 9]], matched=[[1, 1, 3, 2]]),
    ),
    "a get of only the required fields": ([23, 2, "ORDERS"], m.Get(2, "ORDERS")),
    "a get with additional fields": (
        [23, 2, "ORDERS", 1, 0, 0, 1_048_576, "", b"", b"", b"", 0, False, 0, 0, "newer"],
        m.Get(2, "ORDERS"),
    ),
    "a goaway of an unknown code": ([3, 9_999, "because", 5], m.Goaway(9_999, "because", 5)),
    "an error of an unknown code": (
        [7, 9, 9_999, 1, 250, "later"],
        m.Error(9, 9_999, 1, 250, "later"),
    ),
}

# Longer encodings of the same values, with integers, lengths and floats of other widths
WIDER: dict[str, tuple[bytes, m.Message]] = {
    "a ping of wide integers": (
        b"\xdc\x00\x02\xcd\x00\x04\xcf" + (7).to_bytes(8, "big"),
        m.Ping(7),
    ),
    "a ping of a signed integer": (b"\x92\x04\xd0\x07", m.Ping(7)),
    "a goaway whose text has a long length": (
        b"\x94\x03\x00\xdb\x00\x00\x00\x01x\xd3" + bytes(8),
        m.Goaway(0, "x"),
    ),
    "a put of a binary and an array with long lengths": (
        b"\x96\x15\x01\x01\x00\xd9\x01Q\xdd\x00\x00\x00\x01\xc6\x00\x00\x00\x02hi",
        m.Put(1, 1, 0, "Q", [b"hi"]),
    ),
    "a map with a long length, a float of 32 bits": (
        b"\x94\x2d\x05\xa1Q\xdf\x00\x00\x00\x01\xacretry_factor\xca\x3f\xc0\x00\x00",
        m.QueueAlter(5, "Q", {"retry_factor": 1.5}),
    ),
}

# Operations that this version does not know, each with its answer, if any
UNKNOWN: dict[str, tuple[list[Any], bool]] = {
    "a request of an unknown operation": ([99, 41, "ORDERS", {"color": "red"}], True),
    "an unknown operation without a request id": ([99], False),
    "an unknown operation whose second element is not an id": ([1_000, "x"], False),
}


class Refused(NamedTuple):
    """Bytes that a decoder must refuse, and the code of the refusal."""

    data: bytes
    code: ErrorCode


def _raw(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def _damaged(name: str, offset: int, value: int) -> bytes:
    """Returns the record *name* with one byte changed, but with a valid checksum."""
    data = bytearray(record.encode(RECORDS[name]))
    data[offset] = value
    data[:4] = crc32(data[5:]).to_bytes(4, "big")
    return bytes(data)


REFUSED_FRAMES: dict[str, Refused] = {
    "longer than the limit": Refused(LENGTH.pack(8_388_609), ErrorCode.FRAME_TOO_LARGE),
    "of 4 GiB": Refused(b"\xff\xff\xff\xff", ErrorCode.FRAME_TOO_LARGE),
    "an HTTP request": Refused(b"GET / HTTP/1.1\r\n\r\n", ErrorCode.FRAME_TOO_LARGE),
    "empty": Refused(_raw(b""), ErrorCode.FRAME_MALFORMED),
    "no array": Refused(_raw(pack({"operation": 4})), ErrorCode.FRAME_MALFORMED),
    "an empty array": Refused(_raw(b"\x90"), ErrorCode.FRAME_MALFORMED),
    "an operation that is text": Refused(encode(["ping"]), ErrorCode.FRAME_MALFORMED),
    "an operation that is true": Refused(encode([True]), ErrorCode.FRAME_MALFORMED),
    "two values": Refused(_raw(b"\x91\x04\x91\x04"), ErrorCode.FRAME_MALFORMED),
    "a value cut short": Refused(_raw(b"\x92\x04"), ErrorCode.FRAME_MALFORMED),
    "0xc1": Refused(_raw(b"\xc1"), ErrorCode.FRAME_MALFORMED),
    "text that is not UTF-8": Refused(_raw(b"\x92\x04\xa1\xff"), ErrorCode.FRAME_MALFORMED),
    "an extension": Refused(_raw(b"\x92\x04\xd4\x05\x00"), ErrorCode.FRAME_MALFORMED),
    "a msgpack timestamp": Refused(
        _raw(b"\x92\x04\xd6\xff\x00\x00\x00\x01"), ErrorCode.FRAME_MALFORMED
    ),
    "a map with a repeated key": Refused(
        _raw(b"\x93\x06\x01\x82\xa1a\x01\xa1a\x02"), ErrorCode.FRAME_MALFORMED
    ),
    "a map with a number as a key": Refused(
        _raw(b"\x93\x06\x01\x81\x01\x02"), ErrorCode.FRAME_MALFORMED
    ),
    "an array that claims 4 billion elements": Refused(
        _raw(b"\xdd\xff\xff\xff\xff"), ErrorCode.FRAME_MALFORMED
    ),
    "arrays nested 2,000 deep": Refused(
        _raw(b"\x92\x04" + b"\x91" * 2_000 + b"\xc0"), ErrorCode.FRAME_MALFORMED
    ),
    "a request id of 0": Refused(encode([80, 0]), ErrorCode.FIELD_INVALID),
    "a request id of 2**32": Refused(encode([80, 2**32]), ErrorCode.FIELD_INVALID),
    "a request id that is true": Refused(encode([80, True]), ErrorCode.FIELD_INVALID),
    "a missing field": Refused(encode([44, 5]), ErrorCode.FIELD_INVALID),
    "a number for a name": Refused(encode([44, 5, 6]), ErrorCode.FIELD_INVALID),
    "a producer id of 15 bytes": Refused(encode([20, 1, b"p" * 15]), ErrorCode.FIELD_INVALID),
    "a record that is text": Refused(encode([21, 1, 1, 0, "Q", ["x"]]), ErrorCode.FIELD_INVALID),
    "half a handle": Refused(encode([27, 1, 1, 12, b"h" * 16]), ErrorCode.FIELD_INVALID),
    "an action of 7": Refused(encode([27, 1, 7, 12, b""]), ErrorCode.FIELD_INVALID),
    "an attribute that is a map": Refused(
        encode([40, 5, "Q", {"depth_max": {}}]), ErrorCode.FIELD_INVALID
    ),
    "an answer from the dialler": Refused(
        encode(layout.to_array(m.Ok(1))), ErrorCode.STATE_VIOLATION
    ),
    "a second hello": Refused(
        encode(layout.to_array(MESSAGES["Hello"])), ErrorCode.STATE_VIOLATION
    ),
    "a link opened by a client": Refused(
        encode(layout.to_array(MESSAGES["LinkOpen"])), ErrorCode.STATE_VIOLATION
    ),
}

REFUSED_HELLOS: dict[str, Refused] = {
    "a first frame of 4,097 bytes": Refused(LENGTH.pack(4_097), ErrorCode.FRAME_TOO_LARGE),
    "a ping before the hello": Refused(encode([4, 1]), ErrorCode.STATE_VIOLATION),
    "an unknown operation before the hello": Refused(encode([99, 1]), ErrorCode.STATE_VIOLATION),
    "another magic": Refused(encode([1, "amqp", 1, 1, "client", "a"]), ErrorCode.FIELD_INVALID),
    "versions 2 to 3": Refused(
        encode([1, "qmgr", 2, 3, "client", "a"]), ErrorCode.VERSION_UNSUPPORTED
    ),
    "an unknown role": Refused(encode([1, "qmgr", 1, 1, "root", "a"]), ErrorCode.FIELD_INVALID),
    "frames of at most 1 KiB": Refused(
        encode([1, "qmgr", 1, 1, "client", "a", [], b"", 0, "", 1_024]), ErrorCode.FIELD_INVALID
    ),
    "a queue manager without a store": Refused(
        encode([1, "qmgr", 1, 1, "queue-manager", "QM1"]), ErrorCode.FIELD_INVALID
    ),
    "a queue manager without a name": Refused(
        encode([1, "qmgr", 1, 1, "queue-manager", "a b", [], STORE_ID]), ErrorCode.FIELD_INVALID
    ),
}

REFUSED_RECORDS: dict[str, Refused] = {
    "shorter than a head": Refused(b"\x00" * 23, ErrorCode.RECORD_MALFORMED),
    "a flipped bit in the body": Refused(
        _RECORD[:24] + b"\x69" + _RECORD[25:], ErrorCode.CHECKSUM_MISMATCH
    ),
    "a byte cut off": Refused(_RECORD[:-1], ErrorCode.CHECKSUM_MISMATCH),
    "version 2": Refused(_damaged("a body", 5, 2), ErrorCode.RECORD_MALFORMED),
    "priority 10": Refused(_damaged("a body", 6, 10), ErrorCode.RECORD_MALFORMED),
    "an unknown flag that a reader must know": Refused(
        _damaged("a body", 7, 0x20), ErrorCode.RECORD_MALFORMED
    ),
    "a missing delay": Refused(_damaged("a body", 7, 0x10), ErrorCode.RECORD_MALFORMED),
    "a delay of over ten years": Refused(_damaged("a delay", 24, 0x7F), ErrorCode.RECORD_MALFORMED),
    "an expiry of 2**63": Refused(_damaged("a body", 8, 0x80), ErrorCode.RECORD_MALFORMED),
    "a correlation id of 65 bytes": Refused(
        _damaged("everything", 16, 65), ErrorCode.RECORD_MALFORMED
    ),
    "last without a group": Refused(_damaged("a body", 17, 2), ErrorCode.RECORD_MALFORMED),
    "an unknown group flag": Refused(
        _damaged("first of a group", 17, 5), ErrorCode.RECORD_MALFORMED
    ),
    "lengths that do not add up": Refused(_damaged("a body", 23, 4), ErrorCode.RECORD_MALFORMED),
    "a missing origin": Refused(_damaged("a body", 4, 3), ErrorCode.RECORD_MALFORMED),
    "an origin that is not a plain name": Refused(
        record.stamp_encoded(_RECORD, b"a b" + bytes(8)), ErrorCode.RECORD_MALFORMED
    ),
}


def shown(value: Any) -> Any:
    """Returns *value* in a form that JSON can represent."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 2**53 else {"integer": str(value)}
    if hasattr(value, "_fields"):
        return {name: shown(getattr(value, name)) for name in value._fields}
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return [shown(item) for item in value]


def described(message: m.Message) -> dict[str, Any]:
    """Returns a message in the form that vectors have."""
    return {"message": type(message).__name__, "fields": shown(message)}


def files() -> dict[str, list[dict[str, Any]]]:
    """Returns the vectors, by the name of their file."""
    return {
        "messages.json": [
            {"name": name, **described(message), "hex": encode(layout.to_array(message)).hex()}
            for name, message in MESSAGES.items()
        ],
        "records.json": [
            {"name": name, "fields": shown(fields), "hex": record.encode(fields).hex()}
            for name, fields in RECORDS.items()
        ],
        "newer.json": [
            {"name": name, "hex": encode(array).hex(), "reads_as": described(message)}
            for name, (array, message) in NEWER.items()
        ]
        + [
            {"name": name, "hex": _raw(body).hex(), "reads_as": described(message)}
            for name, (body, message) in WIDER.items()
        ]
        + [
            {
                "name": name,
                "hex": encode(array).hex(),
                "answered": "OPERATION_UNKNOWN" if answered else None,
            }
            for name, (array, answered) in UNKNOWN.items()
        ],
        "refused.json": [
            {
                "name": name,
                "what": what,
                "hex": refused.data.hex(),
                "code": int(refused.code),
                "code_name": refused.code.name,
            }
            for what, cases in (
                ("hello", REFUSED_HELLOS),
                ("frame", REFUSED_FRAMES),
                ("record", REFUSED_RECORDS),
            )
            for name, refused in cases.items()
        ],
    }


def text_of(data: list[dict[str, Any]] | dict[str, Any]) -> str:
    """Returns the text of a file that contains *data*."""
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
