"""The remembered producers of each user, so that one user cannot fill the table of producers."""

from collections.abc import Container

from qmgrd.core.context import producer
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys

LOOKED_AT_MAX = 64  # the longest unused producers of a user that are examined for eviction


class ProducerOwners:
    """The producers of each user. The first one has been unused for the longest time.

    The index is in memory, and is read from the rows of the producers when it is first needed. A
    queue manager without users has no index.

    Invariant: once loaded, ``_of_user`` contains each stored producer of a user, and ``_users`` has
        the user of each.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._of_user: dict[str, dict[bytes, None]] = {}
        self._users: dict[bytes, str] = {}
        self._is_loaded = False

    def load(self) -> None:
        """Reads the producers of all users. A damaged row counts toward no user."""
        space, found = keys.SPACE_PRODUCER, list[tuple[int, bytes, str]]()
        for key, value in self._context.tx.scan(space, keys.after(space)):
            use = producer.use_of(key, value)
            if use is not None and use.user:
                found.append((use.used_ms, key[keys.REST], use.user))
        self._is_loaded = True
        for _, producer_id, user in sorted(found):
            self.used(producer_id, user)

    def _load_once(self) -> None:
        if not self._is_loaded:
            self.load()

    def count(self, user: str) -> int:
        """Returns the number of remembered producers of *user*."""
        self._load_once()
        return len(self._of_user.get(user, ()))

    def used(self, producer_id: bytes, user: str) -> None:
        """Adds a producer of *user*, or records that it was opened."""
        self._load_once()
        own = self._of_user.setdefault(user, {})
        own.pop(producer_id, None)
        own[producer_id] = None
        self._users[producer_id] = user

    def gone(self, producer_id: bytes) -> None:
        """Forgets a producer whose row was deleted."""
        user = self._users.pop(producer_id, None)
        if user is None:
            return
        del self._of_user[user][producer_id]
        if not self._of_user[user]:
            del self._of_user[user]

    def evict(self, user: str, in_use: Container[bytes]) -> bytes | None:
        """Deletes the producer of *user* that was opened first, if it is idle. Returns its id.

        A producer is idle if no connection has it open, and it was unused for EVICT_IDLE_MS.
        """
        context, idle_before_ms = self._context, self._context.now.ms - producer.EVICT_IDLE_MS
        for producer_id in list(self._of_user.get(user, ()))[:LOOKED_AT_MAX]:
            key = keys.SPACE_PRODUCER + producer_id
            value = context.tx.get(key)
            use = None if value is None else producer.use_of(key, value)
            if producer_id in in_use or use is None or use.used_ms > idle_before_ms:
                continue
            context.tx.delete(key)
            context.wrote = True
            self.gone(producer_id)
            return producer_id
        return None
