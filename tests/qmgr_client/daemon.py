"""A real queue manager in memory, for one client. A test can cut its connection or crash it."""

from typing import Any

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.catalogue.boot import Boot
from qmgrd.core.layout.kv import Now
from qmgrd.core.peer import Peer
from qmgrd.core.turn import Turns
from tests.memory_store import MemoryStore

STORE = b"s" * 16
SECRET = b"k" * 32
WALL_US = 1_700_000_000_000_000


class Daemon:
    """The production core in a minimal shell.

    Invariant: ``answers`` has the bytes that the daemon has written but the client has not read.
    """

    turns: Turns
    welcome: m.Welcome

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = Config.model_validate(config)
        self.now_ms = 1_000
        self.answers = b""
        self._store = MemoryStore()
        self._peer: Peer | None = None
        self._connections = 0
        self.start()

    def start(self) -> None:
        """Boots from the store, for the first time or after a crash."""
        self._peer, self.answers = None, b""
        self.turns = Turns(self.config, self._store, self._booted, STORE, SECRET)

    def _booted(self, boot: Boot) -> Now:
        limits = self.config.limits
        self.welcome = m.Welcome(
            m.VERSION,
            "QM1",
            boot.store_id,
            boot.number,
            [],
            "test",
            limits.frame_max_bytes,
            limits.message_max_bytes,
            limits.put_window_messages,
            limits.put_window_bytes,
            limits.request_window,
            limits.heartbeat_ms,
            limits.liveness_ms,
        )
        return self._now()

    def _now(self) -> Now:
        return Now(self.now_ms, WALL_US + self.now_ms * 1_000)

    def accept(self) -> None:
        """Accepts a connection."""
        assert self._peer is None
        self._connections += 1
        self._peer = Peer(
            self._connections,
            self.turns.intake,
            self.config.limits,
            self.welcome,
            self.turns.tokens,
            self.now_ms,
        )

    def receive(self, data: bytes) -> None:
        """Receives bytes. Raises RemoteProtocolError if the client broke the protocol."""
        if self._peer is not None:
            self.answers += self._peer.receive(data, self.now_ms)

    def cut(self) -> None:
        """Cuts the connection; all bytes in transit are lost."""
        if self._peer is not None:
            self._peer.closed("cut")
        self._peer, self.answers = None, b""

    def turn(self) -> None:
        """Runs one turn."""
        outcome = self.turns.run(self._now())
        for number, goaway in outcome.closes:
            assert self._peer is None or number != self._peer.number, goaway
        for number, message in outcome.sends:
            if self._peer is not None and self._peer.number == number:
                self.answers += self._peer.encode(message)
