"""What a name may stand for that is no queue here: messages lie elsewhere, and it has no id."""

from typing import Any, NamedTuple

from qmgr_protocol import name as names
from qmgrd.core.catalogue.attribute import ALIAS_OF


class Remote(NamedTuple):
    """A remote queue: where its messages go."""

    name: str
    target: str
    manager: str
    put_inhibit: bool = False


class Alias(NamedTuple):
    """Another name for a local or a remote queue, which may be missing; never for an alias."""

    name: str
    target: str
    put_inhibit: bool = False
    get_inhibit: bool = False


class Proxy(NamedTuple):
    """A subscription whose publications go on to another queue manager."""

    name: str
    manager: str


KINDS = ("remote", "alias", "proxy")  # of rows


def named(name: str, row: dict[str, Any]) -> Remote | Alias | Proxy:
    """Return what the *row* of *name* makes of it."""
    if row["kind"] == "proxy":
        return Proxy(name, name.partition("@")[2])
    put_inhibit = row.get("put_inhibit", False)
    if row["kind"] == "remote":
        return Remote(name, *names.split(name), put_inhibit)
    return Alias(name, row[ALIAS_OF], put_inhibit, row.get("get_inhibit", False))
