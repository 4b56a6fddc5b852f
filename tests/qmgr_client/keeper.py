"""A minimal queue manager with queues, the stream of one producer, and units of work.

When a connection is lost, its leases and units end. Committed messages are kept.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.pieces import PIECE_BYTES, PieceOrder
from qmgr_protocol.record import Fields, Uid

NAME = "QM1"


@dataclass
class Held:
    """An open unit of work."""

    puts: list[tuple[str, bytes]] = field(default_factory=list)
    gets: list[bytes] = field(default_factory=list)


class Keeper:
    """The minimal queue manager. It answers the messages of a client.

    Invariant: each stored body is on a queue, leased or in a unit.
    """

    def __init__(self) -> None:
        self.ready: dict[str, list[bytes]] = {}
        self.leased: dict[bytes, tuple[str, bytes]] = {}  # maps each handle to its queue and body
        self.units: dict[int, Held] = {}
        self.committed: list[int] = []  # numbers of committed units
        self.backed_out: list[tuple[str, str]] = []  # reason and text of each backout
        self.settles: list[m.Settle] = []
        self.commits: list[m.UnitCommit] = []
        self.refuse: dict[bytes, int] = {}  # maps each body to the code of its refusal
        self.lost_leases: set[bytes] = set()  # bodies of messages whose leases are lost
        self.refuse_commits: list[int] = []  # error codes with which the next commits are refused
        self.fields: dict[bytes, Fields] = {}  # fields of each body that was put
        self.uids: dict[bytes, Uid] = {}  # UID of each body that was put
        self.gets: list[m.Get] = []
        self.consumers: list[m.Consume] = []  # opened consumers, to which no messages are delivered
        self.closed_readers: list[int] = []
        self.next_due = 1  # due number that each group reports, or 0 if the group does not exist
        self.pieces = False  # whether long messages are delivered in pieces
        self.longest_frames: list[int] = []  # sizes of the records and pieces that arrived
        self._order = PieceOrder()
        self._bodies: dict[int, bytes] = {}
        self._groups = 0
        self._ids: dict[int, tuple[int, str]] = {}  # maps each sequence id to an error code or 0
        self._clock = 100
        self._answers: dict[type[Any], Callable[[Any], list[m.Message]]] = {
            m.Piece: self._piece,
            m.ProducerOpen: self._open,
            m.Put: self._put,
            m.UnitBegin: self._begin,
            m.UnitPut: self._unit_put,
            m.UnitCommit: self._commit,
            m.UnitBackout: self._backout,
            m.Get: self._get,
            m.Settle: self._settle,
            m.Consume: self._consume,
            m.Browse: self._browse,
            m.GroupNew: self._group_new,
            m.ReaderClose: self._reader_close,
            m.QueueShow: lambda show: [m.Ok(show.request_id, {"dedup_retention_ms": 0})],
            m.GroupShow: self._group_show,
            m.Cancel: lambda cancel: [m.Ended(cancel.request_id, ErrorCode.CANCELLED)],
        }

    def answer(self, message: m.Received) -> list[m.Message]:
        """Returns the answers to *message*."""
        answer = self._answers.get(type(message))
        return answer(message) if answer else []

    def cut(self) -> None:
        """Records the loss of the connection."""
        self._order = PieceOrder()
        self._bodies.clear()
        self.units.clear()
        for handle in reversed(self.leased.copy()):
            self._back(handle)

    @property
    def _commit_id(self) -> int:
        commit_id = 0
        while commit_id + 1 in self._ids:
            commit_id += 1
        return commit_id

    def _back(self, handle: bytes) -> None:
        queue, body = self.leased.pop(handle)
        self.ready.setdefault(queue, []).insert(0, body)

    def _undo(self, held: Held) -> None:
        for handle in reversed(held.gets):
            self._back(handle)

    def _open(self, request: m.ProducerOpen) -> list[m.Message]:
        refused = [[i, code, text] for i, (code, text) in self._ids.items() if code]
        return [m.Ok(request.request_id, [7, self._commit_id, [], refused])]

    def _piece(self, piece: m.Piece) -> list[m.Message]:
        self._order.take(piece)
        self.longest_frames.append(len(piece.data))
        begun = self._bodies.get(piece.body, b"") if piece.offset else b""
        self._bodies[piece.body] = begun + piece.data
        return []

    def _records(self, put: m.Put | m.UnitPut) -> list[bytes]:
        """Returns the records of *put*, and uses up its bodies."""
        found = put.records.copy()
        for index, body in put.bodies:
            assert found[index] == b""
            found[index] = self._bodies.pop(body)
        self.longest_frames += map(len, put.records)
        return found

    def _put(self, put: m.Put) -> list[m.Message]:
        refused, stamped = [], []
        for seq_id, record in enumerate(self._records(put), put.first_id):
            if seq_id not in self._ids:
                self._ids[seq_id] = 0, ""
                fields = records.decode(record)
                if code := self.refuse.get(fields.body):
                    self._ids[seq_id] = code, "as scripted"
                    refused.append([seq_id, code, "as scripted"])
                    continue
                self.fields[fields.body] = fields
                self.ready.setdefault(put.queue, []).append(fields.body)
                self._stamp(fields)
                stamped.append([seq_id, self._clock, 1])
        return [m.Committed(7, self._commit_id, refused, stamped)]

    def _begin(self, request: m.UnitBegin) -> list[m.Message]:
        assert request.unit not in self.units
        self.units[request.unit] = Held()
        return [m.Ok(request.request_id)]

    def _unit_put(self, request: m.UnitPut) -> list[m.Message]:
        held = self.units.get(request.unit)
        if held is None:
            return [m.Error(request.request_id, ErrorCode.UNIT_UNKNOWN, 2)]
        refused, stamped = [], []
        for index, record in enumerate(self._records(request)):
            fields = records.decode(record)
            body = fields.body
            if code := self.refuse.get(body) or self._doubled(request.queue, fields.uid):
                refused.append([index, code, "as scripted"])
                continue
            self.fields[body] = fields
            held.puts.append((request.queue, body))
            self._stamp(fields)
            stamped.append([index, self._clock, 1])
        return [m.Ok(request.request_id, [refused, stamped])]

    def _doubled(self, queue: str, uid: Uid | None) -> int:
        """Returns the code that refuses another message with *uid*, or 0."""
        leased = [body for name, body in self.leased.values() if name == queue]
        if uid in [self.uids.get(body) for body in self.ready.get(queue, []) + leased]:
            return ErrorCode.DUPLICATE_MESSAGE
        held = [put for unit in self.units.values() for put in unit.puts]
        is_held = uid in [self.uids[body] for name, body in held if name == queue]
        return ErrorCode.DUPLICATE_UNCOMMITTED if is_held else 0

    def _stamp(self, fields: Fields) -> None:
        self._clock += 1
        self.uids[fields.body] = fields.uid or Uid(NAME, self._clock)

    def _commit(self, commit: m.UnitCommit) -> list[m.Message]:
        self.commits.append(commit)
        if commit.seq_id not in self._ids:
            code = self._committed(commit)
            self._ids[commit.seq_id] = code, "as scripted" if code else ""
        code, text = self._ids[commit.seq_id]
        refused = [[commit.seq_id, code, text]] if code else []
        return [m.Committed(7, self._commit_id, refused)]

    def _committed(self, commit: m.UnitCommit) -> int:
        """Handles a commit. Returns the code of the refusal, or 0."""
        held = self.units.get(commit.unit)
        if held is None:
            return ErrorCode.UNIT_BACKED_OUT
        if self.refuse_commits:
            return self.refuse_commits.pop(0)
        del self.units[commit.unit]
        if (len(held.puts), len(held.gets)) != (commit.puts, commit.gets):
            self._undo(held)
            return ErrorCode.UNIT_INCOMPLETE
        for queue, body in held.puts:
            self.ready.setdefault(queue, []).append(body)
        for handle in held.gets:
            del self.leased[handle]
        self.committed.append(commit.unit)
        return 0

    def _backout(self, request: m.UnitBackout) -> list[m.Message]:
        held = self.units.pop(request.unit, None)
        if held is None:
            return [m.Error(request.request_id, ErrorCode.UNIT_UNKNOWN, 2)]
        self._undo(held)
        self.backed_out.append((request.reason, request.text))
        return [m.Ok(request.request_id, [len(held.puts), len(held.gets)])]

    def _get(self, get: m.Get) -> list[m.Message]:
        self.gets.append(get)
        found = self._selected(get)
        if not found:
            return [] if get.wait_ms > 10 else [m.Ok(get.request_id)]  # No message will come.
        items, pieces, rows = [], list[m.Message](), list[list[int]]()
        for body in found[: get.messages_max]:
            self.ready[get.queue].remove(body)
            self._clock += 1
            handle = m.HANDLE.pack(4, self._clock, self._clock)
            self.leased[handle] = get.queue, body
            items.append(self._item(body))
            if self.pieces and len(items[-1]) > PIECE_BYTES + m.DELIVERY_BYTES:
                head, record = items[-1][: m.DELIVERY_BYTES], items[-1][m.DELIVERY_BYTES :]
                rows.append([len(items) - 1, len(rows) + 1])
                items[-1] = head
                pieces += [
                    m.Piece(len(rows), len(record), at, record[at : at + PIECE_BYTES])
                    for at in range(0, len(record), PIECE_BYTES)
                ]
        return [*pieces, m.Deliver(get.request_id, 3, items, rows)]

    def _selected(self, wanted: m.Get | m.Browse) -> list[bytes]:
        """Returns the bodies that an id or a position in a group selects."""
        number = wanted.number if isinstance(wanted, m.Get) else 0
        found = []
        for body in self.ready.get(wanted.queue, []):
            fields = self.fields.get(body, Fields(body))
            group_id, is_number, _ = fields.group or (bytes(24), 1, True)
            if wanted.correlation_id not in (b"", fields.correlation_id):
                continue
            if isinstance(wanted, m.Get) and wanted.uid and wanted.uid != self._uid(body):
                continue
            if wanted.group_id in (b"", group_id) and number in (0, is_number):
                found.append(body)
        return found

    def _uid(self, body: bytes) -> bytes:
        return records.encode_uid(self.uids[body]) if body in self.uids else b""

    def _item(self, body: bytes) -> bytes:
        fields = self.fields.get(body, Fields(body))
        uid = self.uids.get(body) or Uid(NAME, self._clock)
        record = records.encode(fields._replace(uid=uid))
        return m.DELIVERY.pack(4, self._clock, self._clock, 0, 0, 0, 1_000_000) + record

    def _browse(self, browse: m.Browse) -> list[m.Message]:
        items = [self._item(body) for body in self._selected(browse)]
        return [m.Ok(browse.request_id, {"items": items[: browse.messages_max], "next": None})]

    def _consume(self, request: m.Consume) -> list[m.Message]:
        self.consumers.append(request)
        return [m.Ok(request.request_id, [3, 30_000])]

    def _group_new(self, request: m.GroupNew) -> list[m.Message]:
        self._groups += 1
        return [m.Ok(request.request_id, self._groups.to_bytes(24, "big"))]

    def _group_show(self, request: m.GroupShow) -> list[m.Message]:
        if not self.next_due:
            text = "no such group"
            return [m.Error(request.request_id, ErrorCode.GROUP_UNKNOWN, 2, 0, text)]
        return [m.Ok(request.request_id, {"next": self.next_due})]

    def _reader_close(self, request: m.ReaderClose) -> list[m.Message]:
        self.closed_readers.append(request.reader)
        return [m.Ok(request.request_id)]

    def _settle(self, settle: m.Settle) -> list[m.Message]:
        self.settles.append(settle)
        exceptions = []
        size = m.HANDLE.size
        for index in range(len(settle.handles) // size):
            handle = settle.handles[index * size : (index + 1) * size]
            if code := self._end(settle, handle):
                exceptions.append([settle.settle_id, index, int(code)])
        return [m.Settled(settle.settle_id, exceptions)]

    def _end(self, settle: m.Settle, handle: bytes) -> int:
        """Ends a lease. Returns the error code, or 0."""
        _, body = self.leased.get(handle, ("", b""))
        if handle not in self.leased or body in self.lost_leases:
            return ErrorCode.LEASE_LOST if settle.unit else 0
        if settle.unit:
            held = self.units.get(settle.unit)
            if held is None:
                return ErrorCode.UNIT_UNKNOWN
            held.gets.append(handle)
        elif settle.action == m.ACK:
            del self.leased[handle]
        elif settle.action != m.RENEW:
            self._back(handle)
        return 0
