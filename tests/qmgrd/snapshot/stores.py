"""A store with content of all kinds, and functions that damage a closed store."""

from collections.abc import Callable
from pathlib import Path

import lmdb

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.verify.finding import MEANINGS
from qmgrd.verify.verify import Verification, verify
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.snapshot.shot import managed

LONG = b"long" * 4_000  # This body is stored in several pieces.
GROUP_ID = b"G" * 24
ON, GAP, AWAY, STOPPED = (name.ljust(24, b"\0") for name in (b"ON", b"GAP", b"AWAY", b"STOPPED"))
DAY_MS = 86_400_000
Change = Callable[[lmdb.Transaction], object]


def fill(manager: Manager) -> Client:
    """Defines queues and links, and puts, gets, acks, loses and releases messages."""
    client = manager.connect()
    client.ask(m.QueueCreate, "Q", {"depth_max": 1_000})
    client.ask(m.QueueCreate, "EMPTY")
    client.ask(m.QueueCreate, "ALIAS", {"alias_of": "F@NYC"})
    client.ask(m.TemplateSet, "EMP*", {"retry_factor": 1.5})
    client.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:7470"], "stopped": True})
    client.ask(m.QueueCreate, "F@NYC")
    for priority in (0, 4, 9):
        client.put("Q", b"short", b"gone", priority=priority)
    client.put("Q", LONG, LONG)
    client.put("Q", b"elsewhere", uid=("ELSE", 5))
    client.put("F@NYC", b"first", LONG)
    client.ack(*client.get("Q", 2))
    client.release(*client.get("Q", 1))
    client.ask(m.QueueCreate, "DROPPED")
    client.put("DROPPED", b"a", LONG)
    client.ask(m.QueueDelete, "DROPPED", True)
    fill_late(client)
    fill_groups(client)
    return client


def fill_late(client: Client) -> None:
    """Puts messages with more index rows: a correlation id, a group, a due time, a failure."""
    client.ask(m.QueueCreate, "LATE", {"dedup_retention_ms": 60_000})
    client.put("LATE", b"consumed", uid=("GONE", 7), correlation_id=b"gone")
    client.ack(*client.get("LATE"))
    client.put("LATE", b"failed")
    client.release(*client.get("LATE"))
    client.put("LATE", b"selected", correlation_id=b"c", group=(GROUP_ID, 2, False))
    client.put("LATE", LONG, correlation_id=b"late", expiry_ms=DAY_MS)
    client.put("LATE", b"delayed", correlation_id=b"then", delay_ms=DAY_MS, priority=7)
    client.put("LATE", b"lost", correlation_id=b"v", flags=records.FLAG_NOT_PERSISTENT)


def fill_groups(client: Client) -> None:
    """Puts four groups: one that continues, one with a gap, a leased one, and a stopped one."""
    client.ask(m.QueueCreate, "GROUPS")
    client.put("GROUPS", b"away", group=(AWAY, 1, False))
    client.ack(*client.get("GROUPS"))
    for number, last in ((1, False), (2, False), (3, True)):
        client.put("GROUPS", b"on", group=(ON, number, last))
    client.ack(*client.get("GROUPS"))
    client.put("GROUPS", b"gap", group=(GAP, 2, False), priority=9)
    client.put("GROUPS", b"gap", group=(GAP, 4, False), delay_ms=DAY_MS)
    client.put("GROUPS", b"stopped", group=(STOPPED, 1, False))
    client.ask(m.GroupAlter, "GROUPS", STOPPED, "pause")


def filled(directory: Path) -> Path:
    """Returns the closed data directory of such a store."""
    with managed(directory) as manager:
        fill(manager)
        manager.restart()
        client = manager.connect()
        client.put("LATE", b"living", correlation_id=b"v", flags=records.FLAG_NOT_PERSISTENT)
        manager.rest()
    return directory


def change(directory: Path, *changes: Change) -> None:
    """Changes rows of a closed store directly."""
    env = lmdb.open(str(directory / "store"), map_size=1 << 30, max_dbs=0, lib_version=0)
    with env.begin(write=True) as txn:
        for one in changes:
            one(txn)
    env.close()


def rows_in(txn: lmdb.Transaction, prefix: bytes) -> list[tuple[bytes, bytes]]:
    """Returns all rows whose keys start with *prefix*."""
    pairs = [(bytes(key), bytes(value)) for key, value in txn.cursor()]
    return [(key, value) for key, value in pairs if key.startswith(prefix)]


def delete(prefix: bytes) -> Change:
    """Removes the first row whose key starts with *prefix*."""
    return lambda txn: txn.delete(rows_in(txn, prefix)[0][0])


def flip(prefix: bytes, at: int = -1) -> Change:
    """Flips a bit of the first value whose key starts with *prefix*."""

    def do(txn: lmdb.Transaction) -> None:
        key, value = rows_in(txn, prefix)[0]
        changed = bytearray(value)
        changed[at] ^= 1
        txn.put(key, bytes(changed))

    return do


def put(key: bytes, value: bytes) -> Change:
    """Writes a row."""
    return lambda txn: txn.put(key, value)


def put_sealed(key: bytes, row: bytes) -> Change:
    """Writes a row with its seal."""
    return put(key, rows.seal(key, row))


def edit(prefix: bytes, new: Callable[[bytes], bytes]) -> Change:
    """Changes the first sealed row whose key starts with *prefix*, and seals it again."""

    def do(txn: lmdb.Transaction) -> None:
        key, value = rows_in(txn, prefix)[0]
        txn.put(key, rows.seal(key, new(rows.unseal(key, value))))

    return do


def ready(queue_id: int = 1) -> bytes:
    """Returns the key prefix of a queue's messages."""
    return keys.lane(queue_id, keys.LANE_READY)


UID, ORIGIN = keys.SPACE_UID, keys.SPACE_ORIGIN
LONG_KEY = keys.message(1, keys.LANE_READY, 4, 7)  # the key of a long message on Q
INBOX = keys.SPACE_LINK_INBOX + b"S" * 24
OUTBOX = keys.of_queue(keys.SPACE_LINK_OUTBOX, 3)
MORE = (  # rows that only a peer creates, and a job
    put_sealed(INBOX, pack(["NYC", 5, [[7, 2]], b"EWR" + bytes(8)])),
    put_sealed(OUTBOX, pack([0, None])),
    put_sealed(keys.SPACE_PEER + b"NYC", b"N" * 16),
    put_sealed(keys.job(9), pack({"kind": "drop", "queue_id": 77, "cursor": b"", "done": 0})),
    put(keys.message(77, keys.LANE_READY, 4, 1), b"of a queue that is being removed"),
)


def faults(verdict: Verification) -> list[tuple[str, bytes]]:
    """Returns the fault and key of each finding."""
    return [(one.fault, one.key) for one in verdict.findings.kept]


def check_found(store: Path, fault: str, key: bytes, damage: Change) -> None:
    """Checks that *damage* is reported exactly once, and with its own kind."""
    change(store, damage)
    (found,) = verify(store).findings.kept
    assert found.fault == fault
    assert found.key.startswith(key)
    assert found.what
    assert found.means == MEANINGS[fault]
