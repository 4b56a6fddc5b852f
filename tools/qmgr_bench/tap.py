"""Counts the traffic of a link: messages by kind, bytes, and repeated messages."""

from collections import Counter
from dataclasses import dataclass, field

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.frame import FrameDecoder
from qmgr_protocol.messages import OPERATIONS
from qmgr_proxy.proxy import ProxyConnection, Way

FRAME_MAX_BYTES = 1 << 30  # No limit is needed here, because the ends check the length.
# Messages that carry or concern data. All other messages open connections or are heartbeats.
FLOWS = (m.Put, m.CommitAsk, m.Committed, m.Blocked)


@dataclass(slots=True)
class Tap:
    """The traffic of one link since the last :meth:`clear`. The proxy calls :meth:`hear`.

    Invariant: ``bytes_of`` has the size of the record of each sent id. ``sent_over`` has the number
    of the connection that first transferred the id.
    """

    frames: Counter[type] = field(default_factory=Counter)
    frame_bytes: Counter[type] = field(default_factory=Counter)
    bytes_of: dict[int, int] = field(default_factory=dict)
    sent_over: dict[int, int] = field(default_factory=dict)
    again_messages: int = 0
    again_bytes: int = 0
    path_of: dict[int, int] = field(default_factory=dict)  # path number by connection number
    _decoders: dict[tuple[int, Way], FrameDecoder] = field(default_factory=dict)

    def clear(self) -> None:
        """Resets all numbers. Keeps the known connections."""
        self.frames.clear()
        self.frame_bytes.clear()
        self.bytes_of.clear()
        self.sent_over.clear()
        self.again_messages = self.again_bytes = 0

    def hear(self, connection: ProxyConnection, way: Way, data: bytes) -> None:
        """Counts the data that one end of *connection* has sent."""
        self.take(connection.number, way, data)

    def take(self, number: int, way: Way, data: bytes) -> None:
        """Counts the frames that *data* completes, on the connection *number*."""
        decoder = self._decoders.get((number, way))
        if decoder is None:
            decoder = self._decoders[number, way] = FrameDecoder(FRAME_MAX_BYTES)
        decoder.feed(data)
        for array, size in decoder.drain():
            found = OPERATIONS.get(array[0])
            if found is None:
                continue
            kind = found.kind
            self.frames[kind] += 1
            self.frame_bytes[kind] += size
            message = layout.parse(array) if kind in (m.Put, m.LinkOpen) else None
            if isinstance(message, m.Put):
                self._count(number, message)
            elif isinstance(message, m.LinkOpen):
                self.path_of[number] = message.path

    def _count(self, number: int, put: m.Put) -> None:
        for seq_id, record in enumerate(put.records, put.first_id):
            if seq_id in self.bytes_of:
                self.again_messages += 1
                self.again_bytes += len(record)
            else:
                self.bytes_of[seq_id] = len(record)
                self.sent_over[seq_id] = number

    @property
    def records(self) -> int:
        """Returns the number of sent messages, including repeated ones."""
        return len(self.bytes_of) + self.again_messages

    @property
    def flow_bytes(self) -> int:
        """Returns the bytes of all frames with or about data."""
        return sum(self.frame_bytes[kind] for kind in FLOWS)
