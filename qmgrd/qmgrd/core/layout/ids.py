"""Assigns numbers that never repeat to stored items."""

COUNT_BITS = 40


class Ids:
    """The numbers of one boot: the boot number followed by a count.

    A boot has 2**40 counts, which are enough for months at full speed. The format allows 2**23
    boots.
    """

    __slots__ = ("_end", "last")

    def __init__(self, boot: int) -> None:
        self.last = boot << COUNT_BITS
        self._end = (boot + 1) << COUNT_BITS

    def next(self) -> int:
        """Returns the next number."""
        self.last += 1
        assert self.last < self._end, "all ids of this boot are used: restart the daemon"
        return self.last
