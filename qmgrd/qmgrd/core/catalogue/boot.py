"""Begins a new boot on a store: checks the owner of the store and reads how the last run ended."""

from dataclasses import dataclass

from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction

SECRET_BYTES = 32


class StoreForeign(Exception):
    """The store belongs to another queue manager, or another version wrote it."""


@dataclass(frozen=True, slots=True)
class Boot:
    """The values that a start reads from the store. See :func:`boot`."""

    store_id: bytes
    number: int
    clock_ms: int  # the store clock at the last turn, in milliseconds
    wall_us: int  # the wall clock at the last turn, in microseconds
    stamp_us: int
    turn_number: int
    producers: int
    unclean: bool
    salt: bytes  # a random value that differs at each start, even after the store was restored
    secret: bytes  # the secret of the store, for sessions and leases; never sent to a peer


def boot(
    tx: Transaction, name: str, new_id: bytes, new_secret: bytes, *, is_named: bool = True
) -> Boot:
    """Raises the boot number in *tx* and returns the values that the last run stored.

    Args:
        name: The name of this queue manager, from the configuration if *is_named*, else a default.
        new_id: 16 random bytes: the id of a new store, and the salt of this start. Peers
            receive both.
        new_secret: 32 random bytes: the secret of a store that has none yet. It is never sent.

    Raises:
        StoreForeign: The store belongs to another queue manager, or has a newer format.
        RowDamaged: A row that a start reads is damaged.
    """
    if tx.get(keys.STORE) is None:
        if next(tx.scan(b"\0", b"\xff" * 16), None) is not None:
            raise StoreForeign("the store is not empty, and qmgrd did not create it")
        _found(tx, name, new_id)
    store_id, number = _identify(tx, name, is_named=is_named)
    clock = rows.get(tx, keys.CLOCK)[: keys.CLOCK_ROW.size]
    clock_ms, wall_us, stamp_us, turn_number, producers = keys.CLOCK_ROW.unpack(clock)
    unclean = rows.get(tx, keys.CLEAN) != number.to_bytes(8, "big")
    number += 1
    rows.put(tx, keys.STORE, keys.STORE_ROW.pack(store_id, keys.FORMAT, number) + name.encode())
    secret = rows.find(tx, keys.SECRET) or b""
    if len(secret) != SECRET_BYTES:  # The store is new, or an older version wrote it.
        rows.put(tx, keys.SECRET, secret := new_secret)
    return Boot(
        store_id,
        number,
        clock_ms,
        wall_us,
        stamp_us,
        turn_number,
        producers,
        unclean,
        new_id,
        secret,
    )


def _found(tx: Transaction, name: str, store_id: bytes) -> None:
    """Writes the rows that every store has, as if a boot 0 had ended cleanly."""
    rows.put(tx, keys.STORE, keys.STORE_ROW.pack(store_id, keys.FORMAT, 0) + name.encode())
    rows.put(tx, keys.CLOCK, bytes(keys.CLOCK_ROW.size))
    rows.put(tx, keys.CLEAN, bytes(8))
    rows.put(tx, keys.NEXT_QUEUE, (1).to_bytes(4, "big"))


def _identify(tx: Transaction, name: str, *, is_named: bool) -> tuple[bytes, int]:
    """Returns the store's id and last boot number if the store belongs to this queue manager."""
    value = tx.get(keys.STORE) or b""
    if len(value) >= keys.STORE_ROW.size:
        _, version, _ = keys.STORE_ROW.unpack_from(value)
        if version not in keys.FORMATS_READ:
            raise StoreForeign(
                f"the store has format {version}, but this qmgrd reads {keys.FORMATS_READ_TEXT}: "
                "use the version that wrote it; if none did, it is damaged; "
                "restore the store from a snapshot"
            )
    row = rows.unseal(keys.STORE, value)
    store_id, _, number = keys.STORE_ROW.unpack_from(row)
    owner = row[keys.STORE_ROW.size :].decode()
    if owner != name and not is_named:
        raise StoreForeign(
            f"the store belongs to queue manager {owner}, and no name is configured: "
            f"give --name {owner} (queue_manager.name), or another queue_manager.data_dir"
        )
    if owner != name:
        raise StoreForeign(
            f"the store belongs to queue manager {owner}, but the configuration names {name}: "
            "correct queue_manager.name or queue_manager.data_dir"
        )
    return store_id, number


def check_arrivals(tx: Transaction, name: str, queue_id: int, next_arrival: int) -> None:
    """Raises RowInvalid if a message has the next arrival number or a higher one.

    A put would overwrite such a message. The check does one seek per priority in use, plus one.
    """
    start = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
    stop = keys.after(start)
    while (found := next(tx.scan(start, stop), None)) is not None:
        _, arrival = keys.place(found[0])
        if arrival >= next_arrival:
            raise rows.RowInvalid(
                f"the counters of queue {name} (id {queue_id})",
                f"message {arrival} exists, but by the counters the next message is {next_arrival}",
            )
        # Seeks to a key that must not exist in this lane and priority, which finds the next key.
        start = found[0][keys.BEFORE_ARRIVAL] + next_arrival.to_bytes(8, "big")
