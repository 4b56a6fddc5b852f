"""Hypothesis strategies for messages, arrays and bytes."""

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.record import DELAY_MAX_MS, GROUP_NUMBER_MAX, Fields, Uid

IDS = st.integers(1, 2**32 - 1)
SEQS = st.integers(1, 2**63 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**63 - 1)
TEXTS = st.text(max_size=20)
NAMES = st.text("ABCXYZabc0189._-", min_size=1, max_size=12)
GROUP_IDS = st.binary(min_size=24, max_size=24)
BINARIES = st.lists(st.binary(max_size=20), max_size=4)
ATTRIBUTES = st.dictionaries(
    TEXTS, st.integers(0, 9) | TEXTS | st.lists(TEXTS, max_size=3), max_size=3
)

# Valid values of fields by name, which are the same for all messages
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "magic": st.just(m.MAGIC),
    "version": st.just(1),
    "version_min": st.just(1),
    "version_max": st.integers(1, 9),
    "role": st.sampled_from(["client", "queue-manager"]),
    "name": NAMES,
    "features": st.lists(TEXTS, max_size=3),
    "store_id": st.binary(min_size=16, max_size=16),
    "boot": U64,
    "software": TEXTS,
    "frame_max_bytes": st.integers(65_536, 2**63 - 1),
    "auth_method": TEXTS,
    "auth_data": st.binary(max_size=20),
    "session": st.binary(max_size=64),
    "data": st.binary(max_size=20),
    "token": st.binary(max_size=20),
    "user": NAMES,
    "secrets": st.booleans(),
    "rights": st.lists(TEXTS, max_size=3),
    "kind": TEXTS,
    "operation": TEXTS,
    "values": ATTRIBUTES,
    "message_max_bytes": U64,
    "put_window_messages": U64,
    "put_window_bytes": U64,
    "request_window": U64,
    "heartbeat_ms": U64,
    "liveness_ms": U64,
    "code": U32,
    "text": TEXTS,
    "retry_after_ms": U64,
    "number": U64,
    "request_id": IDS,
    "value": st.none() | st.integers(-9, 9) | st.lists(TEXTS, max_size=3) | ATTRIBUTES,
    "error_class": st.integers(0, 255),
    "producer_id": st.binary(min_size=16, max_size=16),
    "resume": st.booleans(),
    "accept": st.booleans(),
    "instance": U64,
    "stream_id": st.binary(min_size=24, max_size=24),
    "base_id": SEQS,
    "next_id": SEQS,
    "lowest_id": SEQS,
    "life": st.binary(max_size=16),
    "path": st.integers(0, 255),
    "ordered": st.booleans(),
    "taken": U64,
    "stream": IDS,
    "first_id": SEQS,
    "seen": U64,
    "queue": NAMES,
    "pattern": NAMES,
    "records": BINARIES,
    "commit_id": U64,
    "refused": st.lists(st.tuples(SEQS, U32, TEXTS).map(list), max_size=3),
    "held": st.lists(st.tuples(SEQS, SEQS).map(list), max_size=3),
    "matched": st.lists(st.tuples(SEQS, SEQS, U32).map(list), max_size=3),
    "stamped": st.lists(st.tuples(SEQS, U64, SEQS).map(list), max_size=3),
    "seq_id": SEQS,
    "messages_max": st.integers(1, m.GET_MAX_MESSAGES),
    "wait_ms": st.integers(0, m.WAIT_MAX_MS),
    "lease_ms": st.integers(0, m.LEASE_MAX_MS),
    "bytes_max": SEQS,
    "messages": U32,
    "bytes": U64,
    "queue_id": U32,
    "items": BINARIES,
    "settle_id": IDS,
    "action": st.integers(m.ACK, m.RENEW),
    "handles": st.lists(st.binary(min_size=17, max_size=17), max_size=3).map(b"".join),
    "exceptions": st.lists(st.tuples(IDS, U32, U32).map(list), max_size=3),
    "after": TEXTS,
    "origins_after": NAMES,
    "attributes": ATTRIBUTES,
    "purge": st.booleans(),
    "limit": st.integers(1, 1_000),
    "link": NAMES,
    "manager": NAMES,
    "directory": TEXTS,
    "connection": SEQS,
    "extras": st.lists(
        st.tuples(U32, st.dictionaries(TEXTS, U64 | st.binary(max_size=20), max_size=3)).map(list),
        max_size=3,
    ),
    "piece_max_bytes": st.just(0) | st.integers(m.PIECE_LEAST_BYTES, 2**63 - 1),
    "body": st.integers(1, m.BODIES_MAX),
    "bodies": st.lists(st.tuples(U32, st.integers(1, m.BODIES_MAX)).map(list), max_size=3),
    "size": st.integers(m.PIECE_LEAST_BYTES, 2**32 - 1),
    "offset": U64,
    "unit": IDS,
    "puts": U32,
    "gets": U32,
    "where": TEXTS,
    "correlation_id": st.binary(max_size=64),
    "group_id": st.sampled_from([b"", b"g" * 24]),
    "uid": st.binary(max_size=72),
    "delayed": st.booleans(),
    "delay_ms": st.integers(m.DELAY_OF_QUEUE, DELAY_MAX_MS),
    "reason": TEXTS,
    "target": NAMES,
    "rate": U32,
    "rate_bytes": U64,
    "copy": st.booleans(),
    "retries_max": st.integers(0, 2**16 - 1),
    "job": SEQS,
    "order": st.integers(m.PHYSICAL, m.LOGICAL),
    "all_available": st.booleans(),
    "start_later": st.booleans(),
    "reader": U32,
    "incomplete": st.booleans(),
    "topic": NAMES,
    "subscription": NAMES,
    "subscriptions": st.lists(NAMES, max_size=3),
    "retained": st.booleans(),
    "drop": st.booleans(),
    "until": st.integers(0, 2**63 - 1),
    "cursor": NAMES,
    "position": st.integers(0, 2**63 - 1),
    "member": TEXTS,
    "epoch": U64,
}
# Valid values of fields that belong to a single message
_MEMBER = {"group_id": GROUP_IDS, "number": st.integers(0, GROUP_NUMBER_MAX)}
OTHERWISE: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    m.Get: {"number": st.integers(0, GROUP_NUMBER_MAX)},
    m.Consume: {"order": st.integers(m.PHYSICAL, m.PINNED)},
    m.ReaderClose: {"reader": IDS},
    m.GroupList: {"after": st.just(b"") | GROUP_IDS},
    m.GroupShow: _MEMBER,
    m.GroupAlter: _MEMBER | {"action": TEXTS, "connection": U64},
    m.Browse: {
        "order": st.sampled_from((m.PHYSICAL, m.LOGICAL, m.ARRIVAL)),
        "after": st.none() | st.tuples(st.integers(0, 255), U64).map(list),
    },
    m.ConnectionList: {"after": U64},
    m.AccessTest: dict.fromkeys(("address", "user", "method", "tls"), TEXTS),
    m.AsideList: {"after": st.integers(0, 2**63 - 1)},
    m.Settle: {"unit": U32},
    m.QueuePurge: {"messages_max": U64},
    m.QueueMove: {"messages_max": U64},
    m.RepublishList: {"after": st.none() | st.tuples(U64, U32).map(list)},
    m.Republish: {"messages_max": U64},
    m.HistoryRead: {"after": st.integers(0, 2**63 - 1), "bytes_max": U32},
}


def messages_of(kind: type[Any]) -> st.SearchStrategy[m.Message]:
    fields = FIELDS | OTHERWISE.get(kind, {})
    return st.builds(kind, **{name: fields[name] for name in kind._fields})


MESSAGES: st.SearchStrategy[m.Message] = st.sampled_from(sorted(layout.NUMBERS, key=str)).flatmap(
    messages_of
)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=30)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def mutated_arrays(draw: st.DrawFn) -> list[Any]:
    """Returns a message as an array that is valid or has one fault."""
    array = list(layout.to_array(draw(MESSAGES)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(1, len(array)))
        action = draw(st.sampled_from(["replace", "insert", "cut"]))
        if action == "replace":
            array[place : place + 1] = [draw(VALUES)]
        elif action == "insert":
            array.insert(place, draw(VALUES))
        else:
            del array[place:]
    return array


UIDS = st.builds(Uid, NAMES, U64)
RECORD_FIELDS = st.builds(
    Fields,
    body=st.binary(max_size=200),
    priority=st.integers(0, 9),
    correlation_id=st.binary(max_size=64),
    envelope=st.dictionaries(TEXTS, st.integers(-9, 9) | TEXTS | ATTRIBUTES, max_size=3),
    uid=st.none() | UIDS,
    group=st.none() | st.tuples(GROUP_IDS, st.integers(1, GROUP_NUMBER_MAX), st.booleans()),
    expiry_ms=U64,
    flags=st.integers(0, 15),
    delay_ms=st.just(0) | st.integers(0, DELAY_MAX_MS),
)


@st.composite
def chunked(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> tuple[bytes, list[bytes]]:
    """Returns bytes, and the same bytes divided into pieces."""
    whole = draw(data)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    edges = [0, *cuts, len(whole)]
    return whole, [whole[a:b] for a, b in pairwise(edges)]
