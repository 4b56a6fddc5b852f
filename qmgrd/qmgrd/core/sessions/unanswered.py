"""Counts the unanswered requests of a peer, for the limit ``request_window``.

    request, settle ──▶ asked ──last reply, or Settled──▶ forgotten

A request that opens a consumer ends with its ``Ok``. Puts have a separate window. Credit and
cancellations have no reply.
"""

from collections import deque
from typing import Any

from qmgr_protocol import layout
from qmgr_protocol import messages as m

_ANSWERS = frozenset({m.Ok, m.Error, m.Deliver, m.Ended})
_REQUESTS = frozenset(kind for kind in layout.NUMBERS if kind._fields[:1] == ("request_id",)) - {
    *_ANSWERS,
    m.Credit,
    m.Cancel,
}


class UnansweredRequests:
    """The unanswered requests and settles of one connection."""

    __slots__ = ("_requests", "_settles")

    def __init__(self) -> None:
        self._requests: set[int] = set()
        self._settles: deque[int] = deque()

    def __len__(self) -> int:
        """Returns the number of unanswered requests and settles."""
        return len(self._requests) + len(self._settles)

    def asked(self, message: m.Received) -> None:
        """Counts a message that the peer sent."""
        kind = type(message)
        # Type checkers do not narrow the type of a message by a test stored in a variable.
        asked: Any = message
        if kind is m.Settle:
            self._settles.append(asked.settle_id)
        elif kind in _REQUESTS:
            self._requests.add(asked[0])

    def answered(self, message: m.Message) -> None:
        """Counts a message that is sent to the peer."""
        kind = type(message)
        answer: Any = message
        if kind is m.Settled:
            settles = self._settles
            while settles and settles[0] <= answer.settle_id:
                settles.popleft()
        elif kind in _ANSWERS:
            self._requests.discard(answer[0])
