"""The queue before the invention: every put looks at every message. For comparison only."""

from collections.abc import Iterable


class NaiveQueue:
    """Messages in a list. ``comparisons`` counts the looks at a message's UID."""

    def __init__(self) -> None:
        self.uids: list[bytes] = []
        self.comparisons = 0

    def put(self, uid: bytes) -> bool:
        """Appends *uid*; returns False if it exists already."""
        try:
            self.comparisons += self.uids.index(uid) + 1
        except ValueError:
            self.comparisons += len(self.uids)
            self.uids.append(uid)
            return True
        return False

    def remove(self, uids: Iterable[bytes]) -> None:
        for uid in uids:
            self.uids.remove(uid)
