"""The queue managers at the other end of links: their store ids and permissions.

A link row defines the destination of messages. A peer row defines a permitted source. An operator
must allow a queue manager by name (LinkAllow) before that queue manager can open a link to this
one. The row also pins the name to a store id. The operator supplies the store id, or the daemon
learns it at the first contact in either direction.

A store id identifies a peer but proves nothing. While users exist, a peer must also log in
(access/login.py). A queue manager that is not allowed, or that presents a different store id,
learns nothing about streams or messages.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from qmgr_protocol import name as names
from qmgr_protocol.amount import amount
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, FrameMalformed, RequestError, name_of
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction

if TYPE_CHECKING:
    from qmgrd.core.context.context import Context

STORE_ID_BYTES = 16
ROW_BYTES = 1024  # the number of bytes reserved in the store for one peer row
REFUSED_MAX = 100  # maximum number of refused queue managers that the daemon remembers
_FIELDS = ("store_id", "allowed", "allowed_us", "seen_us")


@dataclass(frozen=True, slots=True)
class LinkPeer:
    """The stored data about another queue manager."""

    store_id: bytes = b""  # the pinned store id; empty until the first contact
    is_allowed: bool = False  # whether the peer may open links to this queue manager
    allowed_us: int | None = None  # the time of the permission; None in a row of an older version
    seen_us: int | None = None  # the time when the peer last opened a link to this queue manager
    more: dict[str, Any] = field(default_factory=dict)  # the fields of a newer version

    def encode(self) -> bytes:
        """Returns the stored row."""
        values = self.store_id, self.is_allowed, self.allowed_us, self.seen_us
        row: bytes = pack(self.more | dict(zip(_FIELDS, values, strict=True)))
        return row


def decode(row: bytes) -> LinkPeer:
    """Returns the peer that *row* stores.

    Older versions stored only the store id of each peer, and accepted links from all peers.
    Therefore, a peer with such a row is allowed.

    Raises:
        ValueError: The row is not a valid peer row.
    """
    if len(row) == STORE_ID_BYTES:
        return LinkPeer(row, is_allowed=True)
    try:
        facts = unpack(row)
    except FrameMalformed as error:
        raise ValueError(str(error)) from None
    if type(facts) is not dict or type(facts.get("store_id")) is not bytes:
        raise ValueError("not a map with a store id")
    if len(facts["store_id"]) not in (0, STORE_ID_BYTES):
        raise ValueError(
            f"the store id has {len(facts['store_id'])} bytes instead of {STORE_ID_BYTES}"
        )
    store_id, is_allowed, allowed_us, seen_us = (facts.pop(key, None) for key in _FIELDS)
    return LinkPeer(store_id, is_allowed is True, allowed_us, seen_us, facts)


@dataclass(slots=True)
class Refused:
    """The refusals of one queue manager since the daemon started."""

    store_id: bytes
    code: int
    error: str  # the last error
    count: int
    last_us: int


class LinkPeers:
    """The stored peer rows, and the refusals since the daemon started.

    Invariant: ``allowed_count`` is the number of rows that allow links, including damaged rows.
    """

    def __init__(self, context: "Context") -> None:
        self.allowed_count = 0
        self.refused: dict[str, Refused] = {}  # refusals by peer name, latest last
        self._context = context

    def load(self, tx: Transaction) -> None:
        """Counts the peers that are allowed.

        A damaged row is reported when the daemon needs the row. A row with an invalid name is set
        aside, because no request can refer to the row.
        """
        for key, value in list(tx.scan(keys.SPACE_PEER, keys.after(keys.SPACE_PEER))):
            with self._context.aside.guard(self._context, key):
                names.check(key[keys.REST].decode())
            if tx.get(key) is None:
                continue
            try:
                self.allowed_count += decode(rows.unseal(key, value)).is_allowed
            except (RequestError, ValueError):
                self.allowed_count += 1

    def find(self, name: str) -> LinkPeer | None:
        """Returns the stored peer *name*, or None.

        Raises:
            RequestError: STORE_DAMAGED if the row is damaged.
        """
        key = keys.SPACE_PEER + name.encode()
        row = rows.find(self._context.tx, key)
        try:
            return None if row is None else decode(row)
        except ValueError as error:
            raise rows.RowDamaged(f"the row of queue manager {name}", str(error)) from None

    def is_allowed(self, name: str) -> bool:
        """Returns whether *name* may open links to this queue manager. A damaged row allows it."""
        known = self._find_or_replace(name)
        return known is not None and known.is_allowed

    def _put(self, name: str, before: LinkPeer | None, after: LinkPeer | None) -> None:
        """Replaces the peer *before* with *after*. None means that the row does not exist."""
        key = keys.SPACE_PEER + name.encode()
        if after is None:
            self._context.tx.delete(key)
        else:
            rows.put(self._context.tx, key, after.encode())
        is_counted = before is not None and before.is_allowed
        self.allowed_count += (after is not None and after.is_allowed) - is_counted
        self._context.wrote = True

    def check(self, name: str, store_id: bytes, *, has_link: bool = False) -> LinkPeer | None:
        """Returns the peer *name* after checking its store id. Changes nothing.

        Args:
            has_link: Whether a link to *name* exists. If so, the error advises the operator to
                accept the new store with that link. Otherwise, the error advises the operator to
                allow the new store id.

        Raises:
            RequestError: PEER_STORE_CHANGED if the name is pinned to a different store.
                STORE_DAMAGED if the row is damaged.
        """
        known = self.find(name)
        if known is not None and known.store_id not in (b"", store_id):
            here = self._context.name
            remedy = (
                f"start link {name} and accept the store" if has_link else "allow the new store id"
            )
            raise RequestError(
                ErrorCode.PEER_STORE_CHANGED,
                f"queue manager {name} has a different store than before, now {store_id.hex()}: "
                "either two queue managers have the same name, or the store was created again; "
                f"if it was created again, at {here}: {remedy}",
            )
        return known

    def pin(self, name: str, store_id: bytes, *, has_link: bool = False) -> None:
        """Pins *name* to its store at the first contact. Changes nothing if *name* is pinned.

        Raises:
            RequestError: See :meth:`check`.
        """
        known = self.check(name, store_id, has_link=has_link)
        if known is None or not known.store_id:
            self._put(name, known, replace(known or LinkPeer(), store_id=store_id))

    def admit(self, name: str, store_id: bytes, *, has_link: bool = False) -> None:
        """Admits a link that the queue manager *name* opens, and records the contact.

        Raises:
            RequestError: PEER_NOT_ALLOWED if *name* is not allowed to open links.
                LINKS_EXHAUSTED if too many queue managers are allowed. See also :meth:`check`.
        """
        try:
            before = self.check(name, store_id, has_link=has_link)
            is_known = before is not None and before.is_allowed
            known = before if before and is_known else self._define(name, before)
        except RequestError as error:
            self.refuse(name, store_id, error)
            raise
        now_us = self._context.now.wall_us
        self._put(name, before, replace(known, store_id=store_id, seen_us=now_us))
        self.refused.pop(name, None)
        if not known.store_id:
            self._context.note("info", "peer pinned", peer=name, store_id=store_id.hex())

    def _define(self, name: str, known: LinkPeer | None) -> LinkPeer:
        """Returns a new peer *name* if any queue manager may open links. Otherwise raises."""
        here = self._context.name
        if self._context.config.link.inbound != "any":
            raise RequestError(
                ErrorCode.PEER_NOT_ALLOWED,
                f"{here} accepts no links from {name}; allow {name} at {here}",
            )
        self._check_room()
        self._context.take_room(ROW_BYTES)
        self._context.note("info", "peer allowed", peer=name, why='link.inbound is "any"')
        return replace(known or LinkPeer(), is_allowed=True, allowed_us=self._context.now.wall_us)

    def _check_room(self) -> None:
        limit = self._context.config.link.peers_max
        if self.allowed_count >= limit:
            raise RequestError(
                ErrorCode.LINKS_EXHAUSTED,
                f"{amount(self.allowed_count, 'queue manager')} may already open links to "
                f"{self._context.name}, and the limit is {limit} (link.peers_max); disallow some, "
                "or raise the limit",
            )

    def refuse(self, name: str, store_id: bytes, error: RequestError) -> None:
        """Counts a refusal of a queue manager. Logs the first refusal of each name."""
        if error.code == ErrorCode.STORE_DAMAGED:
            return  # The fault is in this store, and the daemon logs it as such.
        before = self.refused.pop(name, None)
        count = before.count + 1 if before else 1
        now_us = self._context.now.wall_us
        if before is None and len(self.refused) < REFUSED_MAX:
            why = str(error)
            self._context.note("warning", "link from a peer refused", peer=name, why=why)
        elif before is None:  # A peer can invent names, so not every name is logged.
            del self.refused[next(iter(self.refused))]
        self.refused[name] = Refused(store_id, error.code, str(error), count, now_us)

    def allow(self, name: str, store_id: bytes) -> bool:
        """Allows the queue manager *name* to open links. Returns whether the pin changed.

        Args:
            name: The name of the queue manager to allow.
            store_id: The store id to accept for *name*. If it is empty, the daemon accepts the
                pinned store, or the store of the first contact.

        Raises:
            RequestError: NAME_INVALID if the name is not valid. PEER_WRONG if *name* is this queue
                manager. LINKS_EXHAUSTED if too many queue managers are allowed. STORE_DAMAGED if
                the row is damaged and no store id is given.
        """
        names.check(name)
        if name == self._context.name:
            raise RequestError(
                ErrorCode.PEER_WRONG,
                f"{name} is this queue manager itself; name the queue manager that sends to it",
            )
        known = self._find_or_replace(name) if store_id else self.find(name)
        if known is None or not known.is_allowed:
            self._check_room()
        before = known or LinkPeer()
        after = replace(before, store_id=store_id or before.store_id, is_allowed=True)
        if not before.is_allowed:
            after = replace(after, allowed_us=self._context.now.wall_us)
        if after != before:
            self._put(name, known, after)
        self.refused.pop(name, None)
        return bool(before.store_id) and after.store_id != before.store_id

    def _find_or_replace(self, name: str) -> LinkPeer | None:
        """Returns the stored peer *name*. A new peer that is allowed replaces a damaged row."""
        try:
            return self.find(name)
        except rows.RowDamaged:
            return LinkPeer(is_allowed=True)  # load() counted the damaged row as allowed.

    def disallow(self, name: str, *, is_linked: bool) -> None:
        """Withdraws the permission of *name* to open links.

        Args:
            name: The name of the queue manager.
            is_linked: Whether a link to *name* exists. Such a link still needs the pin.

        Raises:
            RequestError: NAME_INVALID if the name is not valid. LINK_UNKNOWN if *name* is not
                allowed to open links.
        """
        names.check(name)
        known = self._find_or_replace(name)
        if known is None or not known.is_allowed:
            raise RequestError(
                ErrorCode.LINK_UNKNOWN,
                f"{name} is not allowed to open links to {self._context.name}",
            )
        is_kept = is_linked and known.store_id
        self._put(name, known, replace(known, is_allowed=False) if is_kept else None)

    def forget_link(self, name: str) -> None:
        """Deletes the peer *name* after its link was deleted, unless *name* may open links."""
        known = self._find_or_replace(name)
        if known is not None and not known.is_allowed:
            self._put(name, known, None)

    def repin(self, name: str, store_id: bytes) -> None:
        """Pins *name* to a new store that an operator has accepted."""
        known = self._find_or_replace(name)
        self._put(name, known, replace(known or LinkPeer(), store_id=store_id))

    def describe(self, name: str) -> dict[str, Any]:
        """Returns the fields of the peer *name* for users and scripts."""
        try:
            found, error = self.find(name) or LinkPeer(), ""
        except rows.RowDamaged as damaged:
            found, error = LinkPeer(is_allowed=True), damaged.text
        return {
            "peer": name,
            "allowed": found.is_allowed,
            "store_id": found.store_id.hex(),
            "allowed_us": found.allowed_us,
            "seen_us": found.seen_us,
            "error": error,
        }

    def allowed(self, rows_max: int) -> list[dict[str, Any]]:
        """Returns the fields of up to *rows_max* queue managers that may open links."""
        found: list[dict[str, Any]] = []
        for key, _ in self._context.tx.scan(keys.SPACE_PEER, keys.after(keys.SPACE_PEER)):
            row = self.describe(key[keys.REST].decode())
            self._context.count_read(1, 0)
            if row["allowed"]:
                found.append(row)
            if len(found) >= rows_max:
                break
        return found

    def refusals(self) -> list[dict[str, Any]]:
        """Returns the queue managers refused since the daemon started, latest first."""
        return [
            {
                "peer": name,
                "store_id": refused.store_id.hex(),
                "code": name_of(refused.code),
                "count": refused.count,
                "last_us": refused.last_us,
                "error": refused.error,
            }
            for name, refused in reversed(self.refused.items())
        ]
