"""Damages the meaning of one row of a store. The row stays well-formed, with a valid checksum."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from qmgr_protocol.codec import pack, unpack
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as sealed
from tests.poison.filled import SAFE, SAFE_ID

Rows = dict[bytes, bytes]

# Changing these rows would create another store, or a clock that cannot be checked.
_OWN = (keys.STORE, keys.CLOCK, keys.CLEAN, keys.NEXT_QUEUE)
_MAPS = (
    keys.SPACE_USER,
    keys.SPACE_ROLE,
    keys.SPACE_QUEUE,
    keys.SPACE_LINK,
    keys.SPACE_TEMPLATE,
    keys.SPACE_TOPIC,
    keys.SPACE_JOB,
    keys.SPACE_CURSOR,
    keys.SPACE_NOTE,
    keys.SPACE_GROUP_ROW,
    keys.SPACE_PRODUCER,
    keys.SPACE_LINK_INBOX,
    keys.SPACE_LINK_OUTBOX,
    keys.SPACE_ASIDE,
)
_UNSEALED = (
    keys.SPACE_MESSAGE,
    keys.SPACE_UID,
    keys.SPACE_DUE,
    keys.SPACE_CORRELATION,
    keys.SPACE_GROUP,
    keys.SPACE_CHAIN,
    keys.SPACE_COMPLETE,
    keys.SPACE_PARKED,
    keys.SPACE_BODY,
    keys.SPACE_UNOWNED,
)
_OF_QUEUES = (
    keys.SPACE_MESSAGE,
    keys.SPACE_UID,
    keys.SPACE_ORIGIN,
    keys.SPACE_CORRELATION,
    keys.SPACE_GROUP,
    keys.SPACE_NOTE,
    keys.SPACE_GROUP_ROW,
    keys.SPACE_CHAIN,
    keys.SPACE_COMPLETE,
    keys.SPACE_COUNTERS,
    keys.SPACE_LINK_OUTBOX,
)
_ODD: list[Any] = [
    -1,
    0,
    1,
    2,
    3,
    7,
    255,
    2**31,
    2**32 - 1,
    2**53,
    2**63,
    2**64 - 1,
    -(2**63),
    None,
    True,
    False,
    "",
    "x",
    "no such",
    "@NYC",
    "SYSTEM.EVENTS",
    "a b",
    "/#",
    b"",
    b"x",
    b"\xff" * 24,
    [],
    [[1, 2]],
    [[0, 2**40]],
    {},
    {"x": 1},
    1.5,
    float("nan"),
    float("inf"),
    "aside",
    "running",
    "drop",
    "alias",
]


class Damage(NamedTuple):
    """A kind of damage, and the key of the damaged row."""

    what: str
    key: bytes


def is_safe(key: bytes, value: bytes) -> bool:
    """Returns whether a row belongs to the queue that is never damaged."""
    if key in _OWN or key == keys.SPACE_QUEUE + SAFE.encode():
        return True
    if key[:1] in _OF_QUEUES:
        return int.from_bytes(key[1:5], "big") == SAFE_ID
    del value
    return False


def damage(rows: Rows, rng: random.Random) -> Damage:
    """Damages one of *rows*."""
    found = [key for key in sorted(rows) if not is_safe(key, rows[key])]
    space = rng.choice(sorted({key[:1] if key[:1] != b"\0" else key for key in found}))
    key = rng.choice([key for key in found if key.startswith(space)])
    ways: list[Callable[[Rows, bytes, random.Random], str]]
    if space in _UNSEALED:
        ways = [_scramble_value, _scramble_key, _swap, _copy_to_another_key, _truncate]
    elif space in _MAPS:
        ways = [*[_change_value] * 6, _swap, _copy_to_another_key, _scramble_value]
    else:
        ways = [_scramble_value, _truncate, _swap, _copy_to_another_key]
    return Damage(rng.choice(ways)(rows, key, rng), key)


def _store(rows: Rows, key: bytes, row: bytes) -> None:
    rows[key] = row if key[:1] in _UNSEALED else sealed.seal(key, row)


def _row(rows: Rows, key: bytes) -> bytes:
    return rows[key] if key[:1] in _UNSEALED else sealed.unseal(key, rows[key])


def _change_value(rows: Rows, key: bytes, rng: random.Random) -> str:
    value = unpack(_row(rows, key))
    holder, at = value, None
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        inside = holder if at is None else holder[at]
        if not (isinstance(inside, dict | list) and inside):
            break
        holder = inside
        at = rng.choice(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
    odd = rng.choice(_ODD)
    if at is None:
        value = odd
    elif isinstance(holder, dict) and rng.random() < 0.15:
        del holder[at]
        odd = "deleted"
    else:
        holder[at] = odd
    _store(rows, key, pack(value))
    return f"value {at!r} is {odd!r}"


def _scramble_value(rows: Rows, key: bytes, rng: random.Random) -> str:
    row = bytearray(_row(rows, key))
    for _ in range(rng.choice([1, 2, 8])):
        if row:
            row[rng.randrange(len(row))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    if rng.random() < 0.2:
        row = bytearray(rng.choice([bytes(len(row)), b"\xff" * len(row), rng.randbytes(len(row))]))
    _store(rows, key, bytes(row))
    return f"value is {bytes(row[:40]).hex()}"


def _truncate(rows: Rows, key: bytes, rng: random.Random) -> str:
    row = _row(rows, key)
    row = row[: rng.randrange(len(row) + 1)] if rng.random() < 0.7 else row + rng.randbytes(5)
    _store(rows, key, row)
    return f"value has {len(row)} bytes"


def _swap(rows: Rows, key: bytes, rng: random.Random) -> str:
    others = [x for x in sorted(rows) if x[:1] == key[:1] and not is_safe(x, rows[x])]
    other = rng.choice(others)
    one, two = _row(rows, key), _row(rows, other)
    _store(rows, key, two)
    _store(rows, other, one)
    return f"value is that of {other.hex()}"


def _new_key(key: bytes, rng: random.Random) -> bytes:
    new = bytearray(key)
    at = rng.randrange(1, len(key)) if len(key) > 1 else 0
    new[at] = rng.choice([0, 1, 2, 255, rng.randrange(256)])
    return bytes(new)


def _scramble_key(rows: Rows, key: bytes, rng: random.Random) -> str:
    new = _new_key(key, rng)
    if is_safe(new, b""):
        return "nothing"
    row = _row(rows, key)
    del rows[key]
    _store(rows, new, row)
    return f"key is {new.hex()}"


def _is_trace_of_a_loss(rows: Rows, key: bytes) -> bool:
    """Returns whether counters under *key* show that the definition of a queue was lost.

    The daemon then refuses to start, as it does after a wrong checksum.
    """
    next_id = int.from_bytes(sealed.unseal(keys.NEXT_QUEUE, rows[keys.NEXT_QUEUE]), "big")
    return key[:1] == keys.SPACE_COUNTERS and 0 < int.from_bytes(key[1:], "big") < next_id


def _copy_to_another_key(rows: Rows, key: bytes, rng: random.Random) -> str:
    new = _new_key(key, rng)
    if is_safe(new, b"") or new[:1] == b"\0" or _is_trace_of_a_loss(rows, new):
        return "nothing"
    _store(rows, new, _row(rows, key))
    return f"again under {new.hex()}"
