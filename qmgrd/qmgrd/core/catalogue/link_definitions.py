"""Creates, alters and removes links: their rows, and the objects made from these rows.

A link is created and deleted together with its transmission queue.
"""

from typing import Any

from qmgr_protocol import name as names
from qmgr_protocol.amount import amount
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgrd.core.catalogue import link_attributes, route
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.missing import unknown_link_error
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.link.link import Link, LinkState

# The reasons for a refusal that end when an operator accepts the peer with a new stream.
ACCEPTABLE = frozenset(
    {
        ErrorCode.PEER_STORE_CHANGED,
        ErrorCode.RESTORED,
        ErrorCode.PEER_RESTORED,
        ErrorCode.STORE_DAMAGED,
    }
)


class LinkDefinitions:
    """Defines, alters and forgets the links of a catalogue."""

    def __init__(self, context: Context, catalogue: Catalogue) -> None:
        self._context = context
        self._catalogue = catalogue

    def load(self, name: str, row: dict[str, Any]) -> None:
        """Creates the link *name* from a stored *row*, after the queues have been read."""
        self._add(name, row)

    def create(self, name: str, given: dict[str, Any]) -> Link:
        """Defines a link and its transmission queue.

        Repeating an identical definition has no effect.

        Raises:
            RequestError: NAME_INVALID, VALUE_INVALID, LINK_EXISTS, LINKS_EXHAUSTED or PEER_WRONG.
        """
        row = link_attributes.created(name, given)
        known = self._catalogue.links.get(name)
        if known is not None:
            if known.addresses != row["addresses"]:
                raise RequestError(
                    ErrorCode.LINK_EXISTS,
                    f"link {name} already exists, with addresses {', '.join(known.addresses)}, not "
                    f"{', '.join(row['addresses'])}; alter its addresses instead",
                )
            for attribute, default in link_attributes.DEFAULTS.items():
                before, after = (x.get(attribute, default) for x in (known.row, row))
                if before != after:
                    raise RequestError(
                        ErrorCode.LINK_EXISTS,
                        f"link {name} already exists, with {attribute} {_shown(before)}, not "
                        f"{_shown(after)}; alter it instead",
                    )
            return known
        if name == self._context.name:
            raise RequestError(
                ErrorCode.PEER_WRONG,
                f"{name} is this queue manager itself; name the link after the other queue manager",
            )
        limit = self._context.config.limits.links_max
        if len(self._catalogue.links) >= limit:
            raise RequestError(
                ErrorCode.LINKS_EXHAUSTED,
                f"{amount(len(self._catalogue.links), 'link')} exist (the limit is {limit})",
            )
        self._catalogue.check_room()
        row["queue_id"] = self._catalogue.next_queue_id()
        self._catalogue.store_queue(
            f"@{name}", {"kind": "transmission", "queue_id": row["queue_id"]}
        )
        self.store(name, row)
        return self._add(name, row)

    def _add(self, name: str, row: dict[str, Any]) -> Link:
        link = Link(name, row, self._catalogue.by_id[row["queue_id"]], self._context)
        self._catalogue.links[name] = link
        self._set_routes()
        return link

    def _set_routes(self) -> None:
        links = sorted(self._catalogue.links.items())
        self._catalogue.routes = {
            manager: link for _, link in links for manager in link.row.get("routes", [])
        }

    def store(self, name: str, row: dict[str, Any]) -> None:
        """Writes the row of a link."""
        rows.put(self._context.tx, keys.SPACE_LINK + name.encode(), pack(row))
        self._context.wrote = True

    def alter(self, name: str, changes: dict[str, Any]) -> dict[str, list[Any]]:
        """Changes attributes of a link permanently. Returns [old, new] for each changed attribute.

        Raises:
            RequestError: NAME_INVALID, LINK_UNKNOWN or VALUE_INVALID.
        """
        link = self.find(name)
        if not changes:
            known = ", ".join(link_attributes.ALTERABLE)
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"links.{name}: nothing to alter; give at least one of {known}",
            )
        before = link_attributes.DEFAULTS | link.row
        changed = {
            attribute: [before[attribute], after]
            for attribute, after in link_attributes.altered(name, changes).items()
            if after != before[attribute]
        }
        if not changed:
            return changed
        row_before = dict(link.row)
        link.row |= {attribute: after for attribute, (_, after) in changed.items()}
        self._set_routes()
        try:
            for _ in route.remotes_of(self._catalogue, name):
                # Each name must still have a link after the change.
                pass
        except RequestError as error:
            link.row.clear()
            link.row |= row_before
            self._set_routes()
            why = f"links.{name}.routes: remote queues still need these routes: {error.text}"
            raise RequestError(ErrorCode.VALUE_INVALID, why) from None
        self.store(name, link.row)
        return changed

    def accept_peer(self, name: str) -> None:
        """Lets a refused link continue with its peer's present store in a new stream.

        Raises:
            RequestError: LINK_UNKNOWN, or VALUE_INVALID if accepting the peer would not help.
        """
        link = self.find(name)
        if link.state is not LinkState.REFUSED:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"link {name} is {link.state.value}, not refused: there is nothing to accept",
            )
        if link.refused_code not in ACCEPTABLE:
            remedy = "fix the reported problem, then start the link"
            if link.refused_code == ErrorCode.PEER_WRONG:
                remedy = "correct the address of the link"
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"link {name} was refused with {name_of(link.refused_code)}, which accepting the "
                f"peer would not fix; {remedy}",
            )
        link.accept(self._catalogue.next_queue_id())
        self.store(name, link.row)

    def remove(self, name: str) -> None:
        """Forgets a link and its transmission queue."""
        link = self._catalogue.links.pop(name)
        self._set_routes()
        self._context.tx.delete(keys.SPACE_LINK + name.encode())
        self._context.tx.delete(keys.of_queue(keys.SPACE_LINK_OUTBOX, link.queue.id))
        self._catalogue.remove_queue(f"@{name}")

    def find(self, name: str) -> Link:
        """Returns the link *name*.

        Raises:
            RequestError: LINK_UNKNOWN.
        """
        found = self._catalogue.links.get(name)
        if found is None:
            names.check(name)
            raise unknown_link_error(name, leads_here=self._context.peers.is_allowed(name))
        return found


def has_dialling(links: dict[str, Link], name: str) -> bool:
    """Returns whether a link dials *name*.

    Such a link also detects that *name* has another store, and is then refused until an operator
    accepts that store.
    """
    link = links.get(name)
    return link is not None and bool(link.addresses)


def _shown(value: Any) -> str:
    """Returns the value of an attribute as a string."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
