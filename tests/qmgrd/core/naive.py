"""A queue without the invention: every put searches all messages. For comparison only."""

from collections.abc import Iterable


class NaiveQueue:
    """Messages in a list. ``comparisons`` counts the comparisons with a message's UID."""

    def __init__(self) -> None:
        self.uids: list[bytes] = []
        self.comparisons = 0

    def put(self, uid: bytes) -> bool:
        """Appends *uid*; returns False if the UID already exists."""
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
