"""What the sender of a refused request may do next: a word for each error code."""

from enum import IntEnum


class ErrorClass(IntEnum):
    """What the sender of a request may do next."""

    word: str  # in PROTOCOL.md
    means: str

    def __new__(cls, number: int, word: str = "", means: str = "") -> "ErrorClass":
        """Make a member; looked up, it has its number alone."""
        self = int.__new__(cls, number)
        self._value_, self.word, self.means = number, word, means
        return self

    RETRY_LATER = 1, "later", "The same request may succeed later."
    NEVER = 2, "never", "The same request fails again."
    UNKNOWN_OUTCOME = (
        3, "unknown", "It may have been done: ask, or send it again if it is idempotent.",
    )  # fmt: skip
