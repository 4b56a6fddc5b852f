"""Numbers for stored things, which never repeat."""

COUNT_BITS = 40


class Ids:
    """The numbers of one boot: the boot number, then a count.

    A boot has 2**40 counts (months at full speed). There are 2**23 boots.
    """

    __slots__ = ("_end", "last")

    def __init__(self, boot: int) -> None:
        self.last = boot << COUNT_BITS
        self._end = (boot + 1) << COUNT_BITS

    def next(self) -> int:
        """Returns the next number for something stored."""
        self.last += 1
        assert self.last < self._end, "all ids of this boot are used: start anew"
        return self.last
