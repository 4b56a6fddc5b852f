"""Peers that are kept out for a while, because a request of theirs met a bug here.

A peer is known by where it comes from and by the name it claims. So a stranger elsewhere that
claims the same name does not keep the real peer out.
"""

from collections import OrderedDict

PEERS_MAX = 1_000  # beyond it the one that was kept out first may come back early


class KeptOut:
    """Who may not come in, and until when.

    Invariant: at most PEERS_MAX peers are known, in the order in which they may come back.
    """

    def __init__(self, keep_out_ms: int) -> None:
        self._keep_out_ms = keep_out_ms
        self._until_ms: OrderedDict[tuple[str, str], int] = OrderedDict()

    def add(self, origin: str, name: str, now_ms: int) -> None:
        """Keep out the peer that comes from *origin* as *name*."""
        self._until_ms[origin, name] = now_ms + self._keep_out_ms
        self._until_ms.move_to_end((origin, name))
        if len(self._until_ms) > PEERS_MAX:
            self._until_ms.popitem(last=False)

    def wait_ms(self, origin: str, name: str, now_ms: int) -> int:
        """Return how long the peer has to wait; 0 if it may come in."""
        while self._until_ms and next(iter(self._until_ms.values())) <= now_ms:
            self._until_ms.popitem(last=False)
        return max(self._until_ms.get((origin, name), 0) - now_ms, 0)

    def __len__(self) -> int:
        return len(self._until_ms)
