"""What the manager stores, shows and hands out, held against the model."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import unpack
from qmgrd.core import entry as entries
from qmgrd.core import keys
from qmgrd.core import row as sealed
from tests.qmgrd.core.harness import Delivery, Manager
from tests.qmgrd.core.machine.message import Message, name_of
from tests.qmgrd.core.machine.model import Model

_OF_LANES = ((keys.LANE_READY, False), (keys.LANE_DELAYED, True))


def compare_store(manager: Manager, model: Model) -> None:
    """Hold the rows of each queue against the model, which learns the chances that were taken."""
    rows = dict(manager.scan(b""))
    for name in model.bounds:
        if name not in manager.turns.broker.catalogue.queues:
            assert not model.depth(name), f"{name} was never made"
            continue
        queue = manager.queue(name)
        for lane, delayed in _OF_LANES:
            _compare_lane(rows, queue.id, lane, model, model.on(name, delayed=delayed))


def _compare_lane(
    rows: dict[bytes, bytes], queue_id: int, lane: int, model: Model, expected: list[Message]
) -> None:
    prefix = keys.lane(queue_id, lane)
    found = sorted((key, value) for key, value in rows.items() if key.startswith(prefix))
    stored = [(keys.place(key), entries.decode(value)) for key, value in found]
    there = [name_of(_record_of(rows, entry).body) for _, entry in stored]
    # What came there in one step of its own accord may have come in any order.
    rank = {name: number for number, name in enumerate(there)}
    for message in expected:
        if message.order[1] == 0 and message.name in rank:
            message.order = message.order[0], rank[message.name] - len(rank)
    expected = sorted(expected, key=lambda x: (-x.priority, x.order))
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
        assert held == message.note, (held, message.note)
        _compare_record(_record_of(rows, entry), message)


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
    if message.uid is None:
        message.uid = found.uid.origin, found.uid.timestamp
    assert tuple(found.uid) == message.uid
    assert found.body == wish.body
    assert found.correlation_id == wish.correlation_id
    assert found.group == (None if wish.group is None else (*wish.group, False))
    headers: dict[str, Any] = found.envelope.get(records.HEADERS, {})
    assert headers == ({"colour": wish.colour} if wish.colour else {})


def compare_delivery(found: Delivery, message: Message, now_ms: int, *, browsed: bool) -> None:
    """Hold what was handed out, or shown, against *message* as it was before."""
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
