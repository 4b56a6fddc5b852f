"""Lease numbers.

A lease number proves that its message was delivered to the session that presents the number.

    number (64 bits) = tag XOR (checksum << 12 | count)

    tag        64 bits: a keyed hash of the session, the queue and the arrival
    checksum   32 bits: of the record, which includes its UID
    count      1 to 4,095: distinguishes leases of one message by one session

1. While a lease is open, only its own session can settle the lease, with exactly this number.
2. After a lease ends, the daemon remembers nothing about it. A late or repeated acknowledgement
   still settles its message if the number matches the session, the place and the message at that
   place. The count may differ, because the session may have received the message under another
   lease.
3. The key of the hash stays in the store, so rule 2 also holds after a restart.

To settle a message that it never received, a client must guess 52 bits. Browsing shows places and
checksums, but no tags. At a million guesses per second, a correct guess takes about 70 years. The
numbers of one session do not help another session, and do not reveal further numbers.

One call of BLAKE2b makes the tags of eight arrivals. A separate call for each message would take a
third of the time of a delivery. The input always has the same length, so the key can be a prefix of
the input. A prefix is faster than the keyed mode of BLAKE2b, and equally safe.
"""

from hashlib import blake2b
from hmac import compare_digest
from struct import Struct

BLOCK = 8  # the number of arrival numbers in a block
IN_BLOCK = BLOCK - 1  # the mask for the index of an arrival number in its block
COUNT_BITS = 12
NO_TAGS: tuple[int, ...] = ()
_COUNTS = (1 << COUNT_BITS) - 1  # the number of different counts; 0 is not a valid count
_STRIDE = 1_021  # the difference between the first counts of successive connections
_KEY_BYTES = 32
_tags = Struct(f">{BLOCK}Q")
_place = Struct(">IQ").pack  # the queue id and the last arrival number of the block


class LeaseNumbers:
    """The lease numbers of one session on one connection."""

    __slots__ = ("_count", "_key", "session_id")

    def __init__(self, secret: bytes, session_id: bytes, connection: int) -> None:
        """Derives the key of a session from the *secret* of the store.

        Args:
            secret: The secret of the store.
            session_id: The id of the session.
            connection: The number of the connection. A resumed session starts with a different
                count.
        """
        self.session_id = session_id
        self._key = blake2b(
            session_id, key=secret, person=b"lease", digest_size=_KEY_BYTES
        ).digest()
        self._count = connection * _STRIDE % _COUNTS

    def next_count(self) -> int:
        """Returns the count for the next leases, which must all be of different messages."""
        self._count = self._count % _COUNTS + 1
        return self._count

    def tags(self, queue_id: int, arrival: int) -> tuple[int, ...]:
        """Returns the tags of all arrival numbers in the block of *arrival*."""
        data = self._key + _place(queue_id, arrival | IN_BLOCK)
        return _tags.unpack(blake2b(data).digest())

    def next(self, queue_id: int, arrival: int, checksum: int) -> int:
        """Returns the number of a new lease of one message."""
        tag = self.tags(queue_id, arrival)[arrival & IN_BLOCK]
        return tag ^ (checksum << COUNT_BITS | self.next_count())

    def proves(self, number: int, queue_id: int, arrival: int, checksum: int) -> bool:
        """Returns whether this session received the message under *number*.

        Runs in constant time.
        """
        tag = self.tags(queue_id, arrival)[arrival & IN_BLOCK]
        expected = (tag >> COUNT_BITS ^ checksum).to_bytes(7, "big")
        is_right = compare_digest((number >> COUNT_BITS).to_bytes(7, "big"), expected)
        return is_right and number != 0  # Items of a browse have the number 0.
