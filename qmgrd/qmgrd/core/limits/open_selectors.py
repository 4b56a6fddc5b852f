"""Limits the selectors of all consumers, gets and subscriptions together.

A compiled selector uses up to 170 bytes of memory for each character.
"""

from qmgr_protocol.errors import ErrorCode, RequestError


class OpenSelectors:
    """The lengths of the open selectors, in characters.

    Invariant: ``_owned`` has the length for each user who has any.
    """

    def __init__(self, max_length: int) -> None:
        """Starts without selectors.

        Args:
            max_length: The maximum length of all selectors.
        """
        self._max_length = max_length
        self._length = 0  # of all selectors, including those without a user
        self._owned: dict[str, int] = {}

    def change(self, owner: str, length: int) -> None:
        """Adds *length* characters to the selectors of *owner*, or subtracts them if negative."""
        self._length += length
        if owner:
            self._owned[owner] = self._owned.get(owner, 0) + length
            if not self._owned[owner]:
                del self._owned[owner]

    def check(self, owner: str, where: str, code: ErrorCode) -> None:
        """Checks that *owner* may open the selector *where*.

        A user may use half of what others leave, so that no user takes all. A connection without a
        user (*owner* is "") may use all that others leave.

        Raises:
            RequestError: *code*, if the selectors are too long.
        """
        own = self._owned.get(owner, 0) + len(where) if owner else 0
        length = self._length + len(where)
        if where and length + own > self._max_length:
            raise RequestError(
                code,
                f"all open selectors would have {length} characters"
                + (f", of which the user would have {own}" if owner else "")
                + f" (the limit is {self._max_length}, and a user may use half of what others "
                "leave): use shorter selectors, end consumers or subscriptions, or raise "
                "limits.selectors_max_length",
            )
