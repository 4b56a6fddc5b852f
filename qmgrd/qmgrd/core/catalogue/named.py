"""Names without a local queue: remote queues, aliases and proxies. They have no queue id."""

from typing import Any, NamedTuple

from qmgr_protocol import name as names
from qmgrd.core.catalogue.attribute import ALIAS_OF


class Remote(NamedTuple):
    """A remote queue: the queue and the queue manager that receive its messages."""

    name: str
    target: str
    manager: str
    put_inhibit: bool = False


class Alias(NamedTuple):
    """Another name for a local or remote queue, which need not exist yet, but never for an
    alias.
    """

    name: str
    target: str
    put_inhibit: bool = False
    get_inhibit: bool = False


class ProxySubscription(NamedTuple):
    """A subscription whose publications are forwarded to another queue manager."""

    name: str
    manager: str


KINDS = ("remote", "alias", "proxy")  # kinds of rows


def named(name: str, row: dict[str, Any]) -> Remote | Alias | ProxySubscription:
    """Returns the object for the *row* of *name*."""
    if row["kind"] == "proxy":
        return ProxySubscription(name, name.partition("@")[2])
    put_inhibit = row.get("put_inhibit", False)
    if row["kind"] == "remote":
        return Remote(name, *names.split(name), put_inhibit)
    return Alias(name, row[ALIAS_OF], put_inhibit, row.get("get_inhibit", False))
