"""Finds the remote queues and proxies of another queue manager."""

from collections.abc import Iterable

from qmgrd.core.catalogue.named import ProxySubscription, Remote


class Remotes:
    """Remote queues and proxies by queue manager. Invariant: no entry is empty."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def add(self, found: object) -> None:
        """Adds *found* if it is a remote queue or a proxy."""
        if isinstance(found, Remote | ProxySubscription):
            self._names.setdefault(found.manager, {})[found.name] = None

    def remove(self, found: object) -> None:
        """Removes *found*, which was added before, if it is a remote queue or a proxy."""
        if isinstance(found, Remote | ProxySubscription):
            names = self._names[found.manager]
            del names[found.name]
            if not names:
                del self._names[found.manager]

    def managers(self) -> Iterable[str]:
        """Returns the queue managers that have remote queues or proxies here."""
        return self._names.keys()

    def of(self, manager: str) -> Iterable[str]:
        """Returns the names of the remote queues and proxies for *manager*, oldest first."""
        return self._names.get(manager, {}).keys()
