"""The classes of error codes. A class states whether a refused request may be sent again."""

from enum import IntEnum


class ErrorClass(IntEnum):
    """The class of an error, which states whether the sender may repeat the request."""

    word: str  # name of the class in PROTOCOL.md
    means: str

    def __new__(cls, number: int, word: str = "", means: str = "") -> "ErrorClass":
        """Makes a member whose value is its number."""
        self = int.__new__(cls, number)
        self._value_, self.word, self.means = number, word, means
        return self

    def __str__(self) -> str:
        """Returns the name, such as RETRY_LATER."""
        return self.name

    RETRY_LATER = 1, "later", "The same request may succeed later."
    NEVER = 2, "never", "The same request fails again."
    UNKNOWN_OUTCOME = (
        3,
        "unknown",
        "The request may have taken effect: check, or send it again if it is idempotent.",
    )


class Coded(IntEnum):
    """An error number with its class and texts."""

    error_class: ErrorClass
    mq: str  # IBM MQ's reason code and name, or a message of its error log, or ""
    means: str
    remedy: str

    def __new__(
        cls,
        number: int,
        error_class: ErrorClass = ErrorClass.NEVER,
        mq: str = "",
        means: str = "",
        remedy: str = "",
    ) -> "Coded":
        """Makes a member whose value is its number."""
        self = int.__new__(cls, number)
        self._value_, self.error_class, self.mq = number, error_class, mq
        self.means, self.remedy = means, remedy
        return self

    @classmethod
    def _missing_(cls, value: object) -> "Coded | None":
        """Returns a code for an unknown number, such as ERROR_4711, of the class NEVER.

        Each lookup creates a new object, so that a peer cannot fill the table.
        """
        if type(value) is not int:
            return None
        self = int.__new__(cls, value)
        self._name_, self._value_ = f"ERROR_{value}", value
        self.error_class, self.mq, self.means, self.remedy = ErrorClass.NEVER, "", "", ""
        return self
