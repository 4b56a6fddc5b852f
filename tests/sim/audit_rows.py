"""Checks of rows that point to messages: UID index, schedule, selection, notes and origins."""

from typing import NamedTuple

from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from qmgrd.core.queue.dedup import OriginTable
from qmgrd.core.queue.group.row import GroupRow
from tests.memory_store import MemoryStore
from tests.sim.ledger import require
from tests.sim.node import Node


class Stored(NamedTuple):
    """A stored message."""

    queue_id: int
    key: bytes
    entry: entries.Entry
    is_lost: bool  # True if the message was lost at a restart, but is not swept yet

    @property
    def arrival(self) -> int:
        """The arrival of the message."""
        return keys.place(self.key)[1]

    @property
    def is_delayed(self) -> bool:
        """True if the message is delayed."""
        return self.key[keys.POSITION_AT] == keys.LANE_DELAYED

    @property
    def is_parked(self) -> bool:
        """True if the message is parked because a subscriber failed on it too often."""
        return self.key[keys.POSITION_AT] == keys.LANE_PARKED


def rows_of(store: MemoryStore, space: bytes) -> list[tuple[bytes, bytes]]:
    """Returns all rows of the key space *space*."""
    return list(store.scan(space, keys.after(space)))


def _of(space: bytes, store: MemoryStore, dropped: set[int]) -> dict[bytes, bytes]:
    """Returns the rows of a key space by queue, except those of deleted queues."""
    return {
        key: value
        for key, value in rows_of(store, space)
        if int.from_bytes(key[1:5], "big") not in dropped
    }


def _same(node: Node, law: str, found: dict[bytes, bytes], expected: dict[bytes, bytes]) -> None:
    odd = [key.hex() for key in found.keys() ^ expected.keys()]
    require(found == expected, law, f"{node.name}: {odd[:5]}")


def rows_lead_to_messages(node: Node, messages: list[Stored], dropped: set[int]) -> None:
    """Checks that each message has its rows, and that each row has its message."""
    remembered = uid_index_agrees(node, messages, dropped)
    schedule_agrees(node, messages, dropped, remembered)
    selection_agrees(node, messages, dropped)
    notes_agree(node, messages, dropped)


def uid_index_agrees(node: Node, messages: list[Stored], dropped: set[int]) -> dict[bytes, bytes]:
    """Checks the UID index against the messages; returns the entries of consumed UIDs."""
    expected: dict[bytes, bytes] = {}
    lost: dict[bytes, bytes] = {}
    unindexed = unindexed_in_order(node, messages, dropped)
    for queue_id, key, entry, is_lost in messages:
        if entry.shared or key in unindexed:
            continue  # The row in the UID index belongs to the publication, or does not exist.
        table, trailer = OriginTable(queue_id), entries.uid_trailer(entry)
        rows_ = lost if is_lost else expected
        target = b"" if queue_id == keys.PUBLICATIONS_ID else entry.target.encode()
        rows_[table.index_key(trailer, target)] = key[keys.POSITION_AT :]
    stored = _of(keys.SPACE_UID, node.store, dropped)
    remembered = {k: v for k, v in stored.items() if v[0] == keys.LANE_REMEMBERED}
    found = {
        key: value
        for key, value in stored.items()
        if key not in remembered and (key in expected or lost.get(key) != value)
    }
    _same(node, "uid_index_agrees", found, expected)
    return remembered


def unindexed_in_order(node: Node, messages: list[Stored], dropped: set[int]) -> set[bytes]:
    """Checks that messages without a row in the UID index are in the order of their UIDs, and
    counted. Returns their keys.
    """
    space = keys.SPACE_COUNTERS
    counters = {
        queue_id: Counters.decode(row)
        for key, row in rows.scan(node.store, space)
        if (queue_id := int.from_bytes(key[1:], "big")) not in dropped
    }
    found: dict[int, dict[int, tuple[bytes, bytes]]] = {queue_id: {} for queue_id in counters}
    for queue_id, key, entry, _ in messages:
        arrival = keys.place(key)[1]
        if queue_id in counters and counters[queue_id].is_unindexed(arrival):
            found[queue_id][arrival] = entries.uid_trailer(entry), key
    for queue_id, by_arrival in found.items():
        trailers = [by_arrival[arrival][0] for arrival in sorted(by_arrival)]
        is_in_order = trailers == sorted(set(trailers))
        origins = {trailer[:-8] for trailer in trailers} - {node.name.encode()}
        is_counted = len(trailers) == counters[queue_id].unindexed
        fact = f"{node.name}: queue id {queue_id}, {is_in_order}, {origins}, {is_counted}"
        require(is_in_order and is_counted and not origins, "unindexed_in_order", fact)
    return {key for by_arrival in found.values() for _, key in by_arrival.values()}


def schedule_agrees(
    node: Node, messages: list[Stored], dropped: set[int], remembered: dict[bytes, bytes]
) -> None:
    """Checks that each message with a time is in the schedule, due no later than that time."""
    expected: dict[bytes, bytes] = {}
    for queue_id, key, entry, _ in messages:
        if queue_id == keys.PUBLICATIONS_ID:
            continue  # The subscriptions that hold the publication have these rows.
        if entry.due_ms:
            lane = key[keys.POSITION_AT]
            expected[keys.due(entry.due_ms, queue_id, lane, *keys.place(key))] = b""
        late = entry.expires_ms and not entry.due_ms
        require(not late, "schedule_agrees", f"{node.name}: {key.hex()} never expires")
    for key, data in rows.scan(node.store, keys.SPACE_GROUP_ROW):
        row, queue_id = GroupRow.decode(data), int.from_bytes(key[1:5], "big")
        if row.due_ms and queue_id not in dropped:
            due = keys.due(row.due_ms, queue_id, keys.LANE_GROUP, 0, row.born)
            expected[due] = key[keys.GROUP_ID_AT :]
    known = {int.from_bytes(key[1:], "big") for key, _ in rows_of(node.store, keys.SPACE_COUNTERS)}
    found: dict[bytes, bytes] = {}
    places: set[bytes] = set()
    for key, value in rows_of(node.store, keys.SPACE_DUE):
        queue_id, place = int.from_bytes(key[9:13], "big"), key[13:]
        if queue_id in dropped or queue_id not in known:
            continue  # When it is due, this row has no effect.
        if key[13] == keys.LANE_REMEMBERED:
            places.add(OriginTable(queue_id).index_key(value) + place)
        else:
            found[key] = value
    _same(node, "schedule_agrees", found, expected)
    forgotten = {key + place for key, place in remembered.items()} - places
    require(not forgotten, "schedule_agrees", f"{node.name}: {forgotten} are never forgotten")
    if node.up:
        next_ms = node.turns.broker.context.schedule.next_ms
        first_ms = min((int.from_bytes(key[1:9], "big") for key in found), default=None)
        in_time = first_ms is None or (next_ms is not None and next_ms <= first_ms)
        require(
            in_time,
            "schedule_agrees",
            f"{node.name}: next is {next_ms}, but the first row is at {first_ms}",
        )


def selection_agrees(node: Node, messages: list[Stored], dropped: set[int]) -> None:
    """Checks that the correlation ids of exactly the available messages are in the index."""
    expected: dict[bytes, bytes] = {}
    for queue_id, key, entry, _ in messages:
        if not entry.target and key[keys.POSITION_AT] in keys.LANES_READY:
            front = entries.front(node.store, entry)
            if found := index.correlation_key(queue_id, front, *keys.place(key)):
                expected[found] = b""
    _same(node, "selection_agrees", _of(keys.SPACE_CORRELATION, node.store, dropped), expected)


def notes_agree(node: Node, messages: list[Stored], dropped: set[int]) -> None:
    """Checks that a message has a note if and only if it has the note flag."""
    found = dict.fromkeys(_of(keys.SPACE_NOTE, node.store, dropped), b"")
    expected = {keys.note(one.queue_id, one.arrival): b"" for one in messages if one.entry.noted}
    _same(node, "notes_agree", found, expected)


def origin_table_covers(node: Node, messages: list[Stored], dropped: set[int]) -> None:
    """Checks that no timestamp of a message on a queue is above the entry of its origin."""
    found = rows.scan(node.store, keys.SPACE_ORIGIN)
    table = {key: int.from_bytes(row, "big") for key, row in found}
    for queue_id, _, entry, _ in messages:
        if queue_id in dropped or entry.shared:
            continue
        trailer = entries.uid_trailer(entry)
        highest = table.get(keys.of_queue(keys.SPACE_ORIGIN, queue_id) + trailer[:-8], -1)
        timestamp = int.from_bytes(trailer[-8:], "big")
        fact = f"{node.name}, queue {queue_id}: {timestamp} of {trailer[:-8]!r} over {highest}"
        require(timestamp <= highest, "origin_table_covers", fact)
