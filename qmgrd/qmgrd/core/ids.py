"""Numbers that never repeat: of what is stored, and of leases."""

from qmgr_protocol.checksum import crc32

COUNT_BITS = 40
MARK_SHIFT = 9  # of a checksum; what is left and a count make a number below 2**63
_COUNT_END = 1 << COUNT_BITS


class Ids:
    """The numbers of one boot.

    What is stored gets the boot number, then a count: 2**40 of them a boot (months at full speed),
    2**23 boots. Boot numbers repeat once a store is put back to an earlier state. So a lease number
    is made of the checksum of the message, its UID included, and of a count that begins somewhere
    else at each start: a handle of before settles its own message or none.
    """

    __slots__ = ("_end", "_leases", "last")

    def __init__(self, boot: int, salt: bytes) -> None:
        """Begin, with a *salt* that is another one at each start."""
        self.last = boot << COUNT_BITS
        self._end = (boot + 1) << COUNT_BITS
        self._leases = crc32(salt + boot.to_bytes(8, "big")) << 8

    def next(self) -> int:
        """Return the next number for something stored."""
        self.last += 1
        assert self.last < self._end, "all ids of this boot are used: start anew"
        return self.last

    def leases(self, count: int) -> int:
        """Return the first of *count* consecutive numbers, below 2**40, for leases."""
        first = self._leases + 1
        if first + count > _COUNT_END:
            first = 1
        self._leases = first + count - 1
        return first


def is_lease_of(number: int, checksum: int) -> bool:
    """Return whether lease *number* was given for a message with that *checksum*."""
    return number >> COUNT_BITS == checksum >> MARK_SHIFT
