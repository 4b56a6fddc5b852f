"""The index of the members of groups, with one row per run.

A run is a sequence of members with consecutive numbers and consecutive arrivals in one lane.
Members that were put together form a run. The key of the run's row contains the number of its last
member, and the value contains the position of its first member. Most members leave from the front,
which changes only one row.

    key    queue id, group id, last number
    value  lane, 9 - priority, arrival of the first member; count (u32) if it is more than 1
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

_COUNT = struct.Struct(">I")
_NUMBER_BYTES = 4
_KEY_BYTES = len(keys.group(0, bytes(24), 0))
_POSITION_BYTES = keys.POSITION.size


class MemberRun(NamedTuple):
    """Consecutive members of one group."""

    first: int
    last: int
    position: bytes  # the position of the first member

    def at(self, number: int) -> bytes:
        """Returns the position of the member with *number*."""
        if number == self.first:
            return self.position
        position = int.from_bytes(self.position, "big") + number - self.first
        return position.to_bytes(_POSITION_BYTES, "big")


def decode(key: bytes, value: bytes) -> MemberRun:
    """Returns the run that a row describes."""
    last, count = int.from_bytes(key[-_NUMBER_BYTES:], "big"), 1
    if len(value) == _POSITION_BYTES + _COUNT.size:
        (count,) = _COUNT.unpack_from(value, _POSITION_BYTES)
    return MemberRun(last - count + 1, last, value[:_POSITION_BYTES])


def is_sound(key: bytes, value: bytes) -> bool:
    """Returns whether a row is valid."""
    if len(key) != _KEY_BYTES or len(value) < _POSITION_BYTES:
        return False
    run = decode(key, value)
    return 0 < run.first <= run.last and (key, value) == row(key[:-_NUMBER_BYTES], run)


def row(prefix: bytes, run: MemberRun) -> tuple[bytes, bytes]:
    """Returns the key and value of the row of *run*. *prefix* is the key prefix of its group."""
    count = run.last - run.first + 1
    value = run.position if count == 1 else run.position + _COUNT.pack(count)
    return prefix + run.last.to_bytes(_NUMBER_BYTES, "big"), value


def prefix_of(queue_id: int, group_id: bytes) -> bytes:
    """Returns the prefix of the keys of a group."""
    return keys.group(queue_id, group_id, 0)[:-_NUMBER_BYTES]


def run_at(tx: Transaction, prefix: bytes, number: int) -> MemberRun | None:
    """Returns the run that contains *number*, or None if the member does not exist."""
    key = prefix + number.to_bytes(_NUMBER_BYTES, "big")
    if (value := tx.get(key)) is not None:
        return decode(key, value)
    for found in tx.scan(key, keys.after(prefix)):
        run = decode(*found)
        return run if run.first <= number else None
    return None


def find(tx: Transaction, prefix: bytes, number: int) -> bytes | None:
    """Returns the position of a member, or None if the member does not exist."""
    run = run_at(tx, prefix, number)
    return None if run is None else run.at(number)


def under(tx: Transaction, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and positions in the order of the numbers, as if each member had its own row.

    Args:
        tx: The transaction of the turn.
        prefix: The prefix of the keys, which must not cover more than one group.
        start: The key at which the scan starts.
    """
    start = max(prefix, start)
    index, rest = start[: _KEY_BYTES - _NUMBER_BYTES], start[_KEY_BYTES - _NUMBER_BYTES :]
    number = int.from_bytes(rest[:_NUMBER_BYTES].ljust(_NUMBER_BYTES, b"\0"), "big")
    number += len(rest) > _NUMBER_BYTES
    if number >> 8 * _NUMBER_BYTES:
        return  # The start is after the last possible key.
    for found in tx.scan(index + number.to_bytes(_NUMBER_BYTES, "big"), keys.after(index)):
        run = decode(*found)
        for at in range(max(number, run.first), run.last + 1):
            key = index + at.to_bytes(_NUMBER_BYTES, "big")
            if not key.startswith(prefix):
                return
            yield key, run.at(at)


def take_out(tx: Transaction, prefix: bytes, numbers: list[int]) -> None:
    """Removes existing members."""
    first, last = numbers[0], numbers[-1]
    if numbers == [*range(first, last + 1)]:
        _take_out(tx, prefix, first, last)
    else:
        for number in numbers:
            _take_out(tx, prefix, number, number)


def _take_out(tx: Transaction, prefix: bytes, first: int, last: int) -> None:
    while first <= last:
        key = prefix + first.to_bytes(_NUMBER_BYTES, "big")
        found = next(tx.scan(key, keys.after(prefix)), None)
        if found is None:
            return
        run = decode(*found)
        if run.first > first:  # The member does not exist because the store is damaged.
            first = run.first
            continue
        until = min(run.last, last)
        if until == run.last:
            tx.delete(found[0])
        else:
            tx.put(*row(prefix, MemberRun(until + 1, run.last, run.at(until + 1))))
        if run.first < first:
            tx.put(*row(prefix, MemberRun(run.first, first - 1, run.position)))
        first = until + 1
