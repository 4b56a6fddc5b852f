"""Peers that are refused for a while because one of their requests caused an internal error.

A peer is identified by its address and the name that it claims. Therefore, a stranger at another
address cannot lock out a peer by claiming its name. A peer that resumes a session other than the
one that caused the error is not refused.
"""

from collections import OrderedDict

PEERS_MAX = 1_000  # above this limit, the oldest entry is dropped early


class Quarantine:
    """The refused peers, and the time at which each refusal ends.

    Invariant: at most PEERS_MAX peers are stored, in the order in which their refusals end.
    """

    def __init__(self, period_ms: int) -> None:
        self._period_ms = period_ms
        self._peers: OrderedDict[tuple[str, str], tuple[int, bytes]] = OrderedDict()

    def add(self, origin: str, name: str, now_ms: int, session_id: bytes = b"") -> None:
        """Refuses the peer that connected from *origin* as *name* with session *session_id*."""
        self._peers[origin, name] = now_ms + self._period_ms, session_id
        self._peers.move_to_end((origin, name))
        if len(self._peers) > PEERS_MAX:
            self._peers.popitem(last=False)

    def wait_ms(self, origin: str, name: str, now_ms: int, session_id: bytes = b"") -> int:
        """Returns the time that the peer has to wait, or 0 if it may connect.

        Args:
            session_id: The session that the peer resumes, if it has proved to own the session.
        """
        while self._peers and next(iter(self._peers.values()))[0] <= now_ms:
            self._peers.popitem(last=False)
        until_ms, guilty = self._peers.get((origin, name), (now_ms, b""))
        if session_id and session_id != guilty:
            return 0
        return until_ms - now_ms

    def __len__(self) -> int:
        return len(self._peers)
