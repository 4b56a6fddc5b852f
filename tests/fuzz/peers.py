"""Simulated attackers of a queue manager: hostile clients and hostile link peers."""

from collections.abc import Sequence
from typing import Any

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RemoteProtocolError
from qmgr_protocol.frame import FrameDecoder, encode
from qmgr_protocol.transitions import FROM_DIALLER, FROM_LISTENER
from qmgrd.core.access.login import Login
from qmgrd.core.context.context import Dial
from qmgrd.core.peer import Peer, goodbye
from tests.fuzz.frames import EDGES, STORE_IDS, Maker, deep_frame
from tests.qmgrd.core.harness import Manager

FRAME_MAX_BYTES = 256 * 1024
FLOODS = (m.Get, m.Consume, m.Cancel, m.Credit, m.QueuePurge, m.Browse, m.Ping, m.ProducerOpen)


class Hostile:
    """A client whose connection may send anything, most of it well-formed."""

    hears: frozenset[type[Any]] = frozenset(FROM_LISTENER | {m.Welcome, m.AuthChallenge, m.Goaway})

    def __init__(
        self,
        manager: Manager,
        number: int,
        maker: Maker,
        *,
        dial: Dial | None = None,
        login: Login | None = None,
    ) -> None:
        self.manager = manager
        self.maker = maker
        self.peer = Peer(
            number,
            manager.turns.intake,
            manager.config.limits,
            manager._welcome,
            manager.tokens,
            manager.mono_ms,
            dial=dial,
            login=login,
        )
        self.is_open = True
        self.is_rough = maker.rng.random() < 0.3
        self.streams: dict[int, int] = {}
        self._decoder = FrameDecoder(FRAME_MAX_BYTES)

    def say(self, message: Any) -> None:
        if self.is_open:
            self.write(encode(layout.to_array(message)))

    def write(self, data: bytes) -> None:
        for chunk in self.maker.chunks(data):
            try:
                self.read(self.peer.receive(chunk, self.manager.mono_ms))
            except RemoteProtocolError as error:
                self.read(self.peer.encode(goodbye(error)))
                self.hang_up()
                return
            if self.peer.goaway is not None:
                self.hang_up()
                return
        assert self.peer._connection.buffered_bytes < FRAME_MAX_BYTES + 4

    def read(self, data: bytes) -> None:
        """Reads replies, and checks that they are valid regardless of the peer's messages."""
        self._decoder.feed(data)
        for array, _ in self._decoder.drain():
            message = layout.parse(array)
            assert type(message) in self.hears, f"received {message}"
            self.heard(message)
        assert self._decoder.error is None, f"received {self._decoder.error}"

    def heard(self, message: Any) -> None:
        """Remembers those values from replies that are useful for attacks."""
        if type(message) is m.Deliver:
            handles = [item[: m.HANDLE.size] for item in message.items]
            self.maker.handles += [(message.queue_id, handle) for handle in handles]
        elif type(message) is m.Ok and isinstance(message.value, list) and message.value[2:]:
            self.streams[message.value[0]] = message.value[1] + 1

    def hang_up(self) -> None:
        self.is_open = False
        self.peer.closed("gone")

    def frames(self) -> Sequence[bytes]:
        """Returns the next frames to send."""
        rng = self.maker.rng
        self.maker.streams = self.streams
        if rng.random() < 0.01:
            return self._flood()
        return [self._frame() for _ in range(rng.choice((1, 1, 1, 3, 10)))]

    def _frame(self) -> bytes:
        rng = self.maker.rng
        if rng.random() < 0.005:
            array = [rng.choice((21, 40, 61, 99)), 1, "Q1"]
            return deep_frame(array[: rng.randint(1, 3)], rng.choice((400, 1_000)))
        if rng.random() < (0.2 if self.is_rough else 0.005):
            return self.maker.frame()
        return self.sound_frame()

    def sound_frame(self) -> bytes:
        """Returns a well-formed frame, which may be sent at the wrong time."""
        return self.maker.request()

    def _flood(self) -> Sequence[bytes]:
        """Returns many similar requests, whose effects may accumulate."""
        flood = self.maker.message(self.maker.rng.choice(FLOODS))
        many = [flood._replace(**{flood._fields[0]: 1_000 + number}) for number in range(100)]
        return [encode(layout.to_array(message)) for message in many]


class FarStore:
    """The store at the other end of a link, which outlives its connections."""

    def __init__(self) -> None:
        self.trailers: dict[int, bytes | None] = {}
        self.life = b""  # process run of the sender at the last arrival

    @property
    def commit_id(self) -> int:
        commit_id = 0
        while commit_id + 1 in self.trailers:
            commit_id += 1
        return commit_id


class FarEnd(Hostile):
    """The queue manager at the other end of a link, which may commit any id."""

    hears = frozenset(FROM_DIALLER | {m.Hello, m.Goaway})

    def __init__(
        self, manager: Manager, number: int, maker: Maker, dial: Dial, store: FarStore
    ) -> None:
        super().__init__(manager, number, maker, dial=dial)
        self.store = store
        self.was_asked = False
        self.life = b""
        self.taken = 0
        self.read(self.peer.hello())
        store_id = STORE_IDS[1] if maker.rng.random() < 0.9 else maker.rng.choice(STORE_IDS)
        if maker.rng.random() < 0.9:
            self.say(m.Welcome(1, dial.link, store_id, 1))

    def heard(self, message: Any) -> None:
        if type(message) is m.LinkOpen:
            self.was_asked, self.life = True, message.life
        elif type(message) is m.Put:
            self.taken += len(message.records)
            for seq_id, record in enumerate(message.records, message.first_id):
                self.store.trailers[seq_id] = record[-8 - record[4] :] if record else None
                self.store.life = self.life

    def sound_frame(self) -> bytes:
        return encode(layout.to_array(self._answer()))

    def _taken(self) -> int:
        rng = self.maker.rng
        return self.taken if rng.random() < 0.95 else rng.choice((0, rng.randint(0, 99)))

    def _answer(self) -> Any:
        maker, rng, commit_id = self.maker, self.maker.rng, self.store.commit_id
        if self.was_asked:
            self.was_asked = False
            ahead = sorted(seq_id for seq_id in self.store.trailers if seq_id > commit_id)
            trailer = self.store.trailers.get(max(ahead, default=commit_id))
            value = [
                1,
                commit_id,
                ahead,
                trailer,
                rng.choice((4, 64, 64, 64)),
                rng.choice((1, 2)),
                0,
                self.store.life if rng.random() < 0.95 else rng.choice((b"", bytes(16))),
            ]
            if rng.random() < 0.2:
                value[rng.randrange(7)] = maker.odd()
            return m.Ok(1, value)
        pick = rng.random()
        if pick < 0.6:
            held = list(self.store.trailers) or [0]
            commit_id = rng.choice((commit_id, commit_id, rng.choice(held)))
            said = commit_id if rng.random() < 0.98 else rng.choice(EDGES[:11])
            return m.Committed(1, said, taken=self._taken())
        if pick < 0.8:
            seq_id, code, wait_ms = (
                rng.randint(1, 9),
                rng.choice((303, 400)),
                rng.choice((0, 1, 100)),
            )
            return m.Blocked(1, seq_id, code, wait_ms, taken=self._taken())
        return maker.message(rng.choice((m.Ok, m.Committed, m.Blocked, m.Ping, m.Ended, m.Deliver)))
