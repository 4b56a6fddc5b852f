"""The queue managers that links lead to, or may come from: their store ids, and who is allowed.

A link row defines where messages go. A row here defines from whom they are accepted: an operator
allows a queue manager by name, before it opens its first link to here (LinkAllow). The row also
pins the name to a store id, given by the operator or met at the first contact in either direction.
A store id is an identifier and no proof: peers cannot prove who they are yet. So a queue manager
that is not allowed, or comes with another store id, learns nothing about streams or messages.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from qmgr_protocol import name as names
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, FrameMalformed, RequestError, name_of
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.limits.amount import amount

if TYPE_CHECKING:
    from qmgrd.core.context.context import Context

STORE_ID_BYTES = 16
ROW_BYTES = 1024  # of room for one definition
REFUSED_MAX = 100  # names remembered of queue managers that were refused
_FIELDS = ("store_id", "allowed", "allowed_us", "seen_us")


@dataclass(frozen=True, slots=True)
class LinkPeer:
    """The stored facts about another queue manager."""

    store_id: bytes = b""  # empty until the first contact
    is_allowed: bool = False  # may open links to here
    allowed_us: int | None = None  # wall clock; None for a row of an older version
    seen_us: int | None = None  # when it opened a link to here the last time
    more: dict[str, Any] = field(default_factory=dict)  # from a newer version

    def encode(self) -> bytes:
        """Returns the stored row."""
        values = self.store_id, self.is_allowed, self.allowed_us, self.seen_us
        row: bytes = pack(self.more | dict(zip(_FIELDS, values, strict=True)))
        return row


def decode(row: bytes) -> LinkPeer:
    """Returns what *row* stores.

    Older versions stored the bare store id of each peer, whichever end had dialled, and accepted
    links from all of them: such a peer stays allowed.

    Raises:
        ValueError: the row is not one of a peer.
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
        raise ValueError(f"a store id of {len(facts['store_id'])} bytes, not {STORE_ID_BYTES}")
    store_id, is_allowed, allowed_us, seen_us = (facts.pop(key, None) for key in _FIELDS)
    return LinkPeer(store_id, is_allowed is True, allowed_us, seen_us, facts)


@dataclass(slots=True)
class Refused:
    """How often a queue manager of some name was refused since the daemon started."""

    store_id: bytes
    code: int
    count: int
    last_us: int


class LinkPeers:
    """The stored rows about other queue managers, and who was refused.

    Invariant: ``allowed_count`` is the number of rows that allow links; a damaged row counts.
    """

    def __init__(self, context: "Context") -> None:
        self.allowed_count = 0
        self.refused: dict[str, Refused] = {}  # by name, the latest last
        self._context = context

    def load(self, tx: Transaction) -> None:
        """Counts the rows; a damaged one is reported once it is needed.

        A row under a name that is none is set aside: nobody could need it.
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
        """Returns what is stored about *name*, or None.

        Raises:
            RequestError: STORE_DAMAGED.
        """
        key = keys.SPACE_PEER + name.encode()
        row = rows.find(self._context.tx, key)
        try:
            return None if row is None else decode(row)
        except ValueError as error:
            raise rows.RowDamaged(f"the row of queue manager {name}", str(error)) from None

    def is_allowed(self, name: str) -> bool:
        """Returns whether *name* may open links to here, as far as a damaged row is readable."""
        known = self._find_or_replace(name)
        return known is not None and known.is_allowed

    def _put(self, name: str, before: LinkPeer | None, after: LinkPeer | None) -> None:
        """Stores *after* in place of *before*; None stands for no row."""
        key = keys.SPACE_PEER + name.encode()
        if after is None:
            self._context.tx.delete(key)
        else:
            rows.put(self._context.tx, key, after.encode())
        is_counted = before is not None and before.is_allowed
        self.allowed_count += (after is not None and after.is_allowed) - is_counted
        self._context.wrote = True

    def check(self, name: str, store_id: bytes, *, has_link: bool = False) -> LinkPeer | None:
        """Returns the row of *name*, and changes nothing.

        Args:
            has_link: a link dials *name*, so the new store is accepted by starting that link.
                Otherwise the new store is allowed by its id.

        Raises:
            RequestError: PEER_STORE_CHANGED, the name is pinned to another store. STORE_DAMAGED.
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
                "either two queue managers have one name, or its store was created again; "
                f"in that case, at {here}: {remedy}",
            )
        return known

    def pin(self, name: str, store_id: bytes, *, has_link: bool = False) -> None:
        """Pins *name* to its store at the first contact, unless it is pinned to it already.

        Raises:
            RequestError: as :meth:`check`.
        """
        known = self.check(name, store_id, has_link=has_link)
        if known is None or not known.store_id:
            self._put(name, known, replace(known or LinkPeer(), store_id=store_id))

    def admit(self, name: str, store_id: bytes, *, has_link: bool = False) -> None:
        """Lets a queue manager that dialled open a link to here, if it is allowed to.

        Raises:
            RequestError: PEER_NOT_ALLOWED, LINKS_EXHAUSTED, or as :meth:`check`.
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
        """Returns a new definition of *name* if anybody may open links, else raises."""
        here = self._context.name
        if self._context.config.link.inbound != "any":
            raise RequestError(
                ErrorCode.PEER_NOT_ALLOWED,
                f"{here} accepts no links from {name}; allow them, at {here}",
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
                f"{amount(self.allowed_count, 'queue manager')} may open links to here, at most "
                f"{limit} (link.peers_max); disallow some",
            )

    def refuse(self, name: str, store_id: bytes, error: RequestError) -> None:
        """Counts that a queue manager was refused, and logs it when its name is new."""
        if error.code == ErrorCode.STORE_DAMAGED:
            return  # The fault is here, and logged as that.
        before = self.refused.pop(name, None)
        count = before.count + 1 if before else 1
        now_us = self._context.now.wall_us
        if before is None and len(self.refused) < REFUSED_MAX:
            why = str(error)
            self._context.note("warning", "link from a peer refused", peer=name, why=why)
        elif before is None:  # Names are free to make up: the log is not.
            del self.refused[next(iter(self.refused))]
        self.refused[name] = Refused(store_id, error.code, count, now_us)

    def allow(self, name: str, store_id: bytes) -> bool:
        """Lets the queue manager *name* open links to here; returns whether its pin changed.

        Args:
            store_id: the only store accepted under that name; empty: the one pinned already, or
                the first that comes.

        Raises:
            RequestError: NAME_INVALID, PEER_WRONG, LINKS_EXHAUSTED, STORE_DAMAGED.
        """
        names.check(name)
        if name == self._context.name:
            raise RequestError(
                ErrorCode.PEER_WRONG,
                f"{name} is this queue manager itself; name the one that sends to here",
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
        """Returns what is stored about *name*; for a damaged row, what takes its place."""
        try:
            return self.find(name)
        except rows.RowDamaged:
            return LinkPeer(is_allowed=True)  # As it was counted.

    def disallow(self, name: str, *, is_linked: bool) -> None:
        """Ends that *name* may open links to here.

        Args:
            is_linked: whether a link leads there, which needs the pin.

        Raises:
            RequestError: NAME_INVALID; LINK_UNKNOWN, it is not allowed.
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
        """Forgets the store of *name*, whose link is deleted, unless it may open links to here."""
        known = self._find_or_replace(name)
        if known is not None and not known.is_allowed:
            self._put(name, known, None)

    def repin(self, name: str, store_id: bytes) -> None:
        """Pins *name* to the store with which it was refused, as an operator accepts that."""
        known = self._find_or_replace(name)
        self._put(name, known, replace(known or LinkPeer(), store_id=store_id))

    def describe(self, name: str) -> dict[str, Any]:
        """Returns the row of *name* for people and scripts."""
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
        """Returns the rows of up to *rows_max* queue managers that may open links to here."""
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
        """Returns who was refused since the daemon started, the latest first."""
        return [
            {
                "peer": name,
                "store_id": refused.store_id.hex(),
                "code": name_of(refused.code),
                "count": refused.count,
                "last_us": refused.last_us,
            }
            for name, refused in reversed(self.refused.items())
        ]
