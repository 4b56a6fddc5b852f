"""Numbers that never repeat: of what is stored, and of leases."""

from zlib import crc32

_COUNT_BITS = 40
_COUNT_MASK = (1 << _COUNT_BITS) - 1


class Ids:
    """The numbers of one boot.

    What is stored gets the boot number, then a count: 2**40 of them a boot (months at full speed),
    2**23 boots. Boot numbers repeat once a store is put back to an earlier state. So a lease number
    is made of the message's UID and a count that begins somewhere else at each start: a handle of
    before settles its own message or none.
    """

    __slots__ = ("_end", "_leases", "last")

    def __init__(self, boot: int, salt: bytes) -> None:
        """Begin, with a *salt* that is another one at each start."""
        self.last = boot << _COUNT_BITS
        self._end = (boot + 1) << _COUNT_BITS
        self._leases = crc32(salt + boot.to_bytes(8, "big")) << 8

    def next(self) -> int:
        """Return the next number for something stored."""
        self.last += 1
        assert self.last < self._end, "all ids of this boot are used: start anew"
        return self.last

    def lease(self, uid: bytes) -> int:
        """Return a number, below 2**63, for a lease of the message with that encoded *uid*."""
        self._leases = (self._leases + 1) & _COUNT_MASK
        return _mark(uid) << _COUNT_BITS | self._leases


def is_lease_of(number: int, uid: bytes) -> bool:
    """Return whether lease *number* was given for the message with that encoded *uid*."""
    return number >> _COUNT_BITS == _mark(uid)


def _mark(uid: bytes) -> int:
    return crc32(uid) >> 9
