"""A queue without our method: each put searches all messages. Used only for comparison."""

from collections.abc import Iterable


class NaiveQueue:
    """A list of messages. ``comparisons`` is the number of comparisons with a message's UID."""

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
