"""Peers that are kept out for a while, because a request of theirs met a bug here.

A peer is known by where it comes from and by the name it claims. So a stranger elsewhere that
claims the same name does not keep the real peer out. Nor is a peer kept out that resumes another
session than the guilty one.
"""

from collections import OrderedDict

PEERS_MAX = 1_000  # beyond it the one that was kept out first may come back early


class KeptOut:
    """Who may not come in, and until when.

    Invariant: at most PEERS_MAX peers are known, in the order in which they may come back.
    """

    def __init__(self, keep_out_ms: int) -> None:
        self._keep_out_ms = keep_out_ms
        self._peers: OrderedDict[tuple[str, str], tuple[int, bytes]] = OrderedDict()

    def add(self, origin: str, name: str, now_ms: int, session_id: bytes = b"") -> None:
        """Keeps out the peer that comes from *origin* as *name*, and had that session."""
        self._peers[origin, name] = now_ms + self._keep_out_ms, session_id
        self._peers.move_to_end((origin, name))
        if len(self._peers) > PEERS_MAX:
            self._peers.popitem(last=False)

    def wait_ms(self, origin: str, name: str, now_ms: int, session_id: bytes = b"") -> int:
        """Returns how long the peer has to wait; 0 if it may come in.

        Args:
            session_id: of the session that it resumes, if it showed that this is its own.
        """
        while self._peers and next(iter(self._peers.values()))[0] <= now_ms:
            self._peers.popitem(last=False)
        until_ms, guilty = self._peers.get((origin, name), (now_ms, b""))
        if session_id and session_id != guilty:
            return 0
        return until_ms - now_ms

    def __len__(self) -> int:
        return len(self._peers)
