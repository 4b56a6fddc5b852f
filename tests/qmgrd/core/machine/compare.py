"""Compares the store, the rows and the deliveries of the manager with the model."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as sealed
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.row import GroupRow
from tests.qmgrd.core.audit_groups import indexed
from tests.qmgrd.core.harness import Delivery, Manager
from tests.qmgrd.core.machine.message import Message, name_of
from tests.qmgrd.core.machine.model import Model


def compare_store(manager: Manager, model: Model) -> None:
    """Compares the rows of each queue with the model, which learns the random choices."""
    rows = dict(manager.scan(b""))
    for name in model.bounds:
        if name not in manager.turns.broker.catalogue.queues:
            assert not model.depth(name), f"{name} was never put"
            continue
        queue = manager.queue(name)
        _learn_order(rows, queue.id, model, name)
        for lane in (keys.LANE_READY, keys.LANE_GROUPED, keys.LANE_DELAYED):
            _compare_lane(rows, queue.id, lane, _of_lane(model, name, lane))
        _compare_groups(rows, queue.id, model, name)


def _of_lane(model: Model, name: str, lane: int) -> list[Message]:
    """Returns the messages expected in a lane."""
    if lane == keys.LANE_DELAYED:
        return model.on(name, delayed=True)
    is_grouped = lane == keys.LANE_GROUPED
    return [x for x in model.on(name) if x.is_member is is_grouped]


def _learn_order(rows: dict[bytes, bytes], queue_id: int, model: Model, name: str) -> None:
    """Orders messages that arrived in the same step by their actual arrival numbers."""
    prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
    found = sorted((keys.place(key)[1], key) for key in rows if key.startswith(prefix))
    names = [name_of(_record_of(rows, entries.decode(rows[key])).body) for _, key in found]
    rank = {name: number for number, name in enumerate(names)}
    for message in model.messages:
        if message.queue == name and message.order[1] == 0 and message.name in rank:
            message.order = message.order[0], rank[message.name] - len(rank)


def _compare_lane(
    rows: dict[bytes, bytes], queue_id: int, lane: int, expected: list[Message]
) -> None:
    prefix = keys.lane(queue_id, lane)
    found = sorted((key, value) for key, value in rows.items() if key.startswith(prefix))
    stored = [(keys.place(key), entries.decode(value)) for key, value in found]
    there = [name_of(_record_of(rows, entry).body) for _, entry in stored]
    assert there == [x.name for x in expected], (lane, there, expected)
    for ((priority, arrival), entry), message in zip(stored, expected, strict=True):
        assert priority == message.priority, message
        assert (entry.delivered, entry.failed) == (message.delivered, message.failed), message
        assert entry.put_us == message.put_us, message
        assert entry.expires_ms == message.expires_ms, message
        assert entry.volatile == message.wish.volatile
        _compare_times(entry, message)
        note = rows.get(keys.note(queue_id, arrival))
        held = unpack(sealed.unseal(keys.note(queue_id, arrival), note)) if note else None
        assert entry.noted == (held is not None)
        if message.codes and held is not None and message.note is not None:
            assert held["code"] in message.codes, (held, message)
            message.note, message.codes = {**message.note, "code": held["code"]}, ()
        assert held == message.note, (held, message.note)
        _compare_record(_record_of(rows, entry), message)
        _compare_member(rows, queue_id, lane, arrival, message)


def _compare_member(
    rows: dict[bytes, bytes], queue_id: int, lane: int, arrival: int, message: Message
) -> None:
    if message.wish.group is None:
        return
    position = indexed(rows, queue_id).get(Member(*message.wish.group[:2]), b"")
    at = keys.POSITION.pack(lane, keys.PRIORITY_TOP - message.priority, arrival)
    assert (position == at) is message.is_member, (position, message)


def _compare_groups(rows: dict[bytes, bytes], queue_id: int, model: Model, name: str) -> None:
    """Compares the stored groups with the model, which learns the message that failed first."""
    prefix = keys.of_queue(keys.SPACE_GROUP_ROW, queue_id)
    found = {
        key[len(prefix) :]: GroupRow.decode(sealed.unseal(key, value))
        for key, value in rows.items()
        if key.startswith(prefix)
    }
    known = {group_id: group for (at, group_id), group in model.groups.known.items() if at == name}
    assert found.keys() == known.keys(), (name, found, known)
    for group_id, group in known.items():
        row = found[group_id]
        left = set(range(1, row.done + 1))
        left |= {first + n for first, count in row.ahead for n in range(count)}
        assert left == group.left, (name, group_id, row, group)
        assert (row.highest, row.last) == (group.highest, group.last), (name, row, group)
        assert (row.is_paused, row.is_closed) == (group.is_paused, group.is_closed)
        if group.parked:
            assert group.parked.get(row.parked_number) == row.parked_code, (row, group)
            group.parked = {row.parked_number: row.parked_code}
        else:
            assert (row.parked_number, row.parked_code) == (0, 0), (row, group)


def _compare_times(entry: entries.Entry, message: Message) -> None:
    least, most = message.look_ms
    assert least <= entry.due_ms <= most, (entry.due_ms, message)
    message.look_ms = entry.due_ms, entry.due_ms
    if message.is_delayed and entry.due_ms != message.expires_ms:
        message.ready_ms = entry.due_ms, entry.due_ms


def _record_of(rows: dict[bytes, bytes], entry: entries.Entry) -> records.Fields:
    if not entry.in_rows:
        return records.decode(entry.rest)
    prefix = keys.SPACE_BODY + entry.rest[:8]
    pieces = sorted((key, value) for key, value in rows.items() if key.startswith(prefix))
    return records.decode(b"".join(value for _, value in pieces))


def _compare_record(found: records.Fields, message: Message) -> None:
    wish = message.wish
    assert found.uid is not None
    if not message.uid[0]:
        message.uid = found.uid.origin, found.uid.timestamp
    assert tuple(found.uid) == message.uid
    assert found.body == wish.body
    assert found.correlation_id == wish.correlation_id
    assert found.group == wish.group
    headers: dict[str, Any] = found.envelope.get(records.HEADERS, {})
    assert headers == ({"colour": wish.colour} if wish.colour else {})


def compare_delivery(found: Delivery, message: Message, now_ms: int, *, browsed: bool) -> None:
    """Compares a delivery or a browsed message with the earlier state of *message*."""
    assert found.priority == message.priority
    assert (found.delivered, found.failed) == (message.delivered, message.failed)
    assert found.put_us == message.put_us, message
    state = m.STATE_MAYBE_REDELIVERED if message.maybe else 0
    if message.delivered:
        state = m.STATE_REDELIVERED
    state |= m.STATE_EXPIRES if message.expires_ms else 0
    state |= m.STATE_NOTED if message.note is not None else 0
    if browsed and message.lease is not None:
        state |= m.STATE_LEASED
    assert found.state == state, (found.state, state, message)
    assert (found.number == 0) is browsed
    tail = found.tail
    if message.expires_ms:
        assert m.REMAINING.unpack_from(tail) == (message.expires_ms - now_ms,)
        tail = tail[m.REMAINING.size :]
    assert (unpack(tail) if tail else None) == message.note
    _compare_record(records.decode(found.record), message)
