"""Which remote queues and proxies are bound for a queue manager."""

from collections.abc import Iterable

from qmgrd.core.catalogue.named import Proxy, Remote


class Remotes:
    """The remote queues and proxies, by queue manager. Invariant: none is without any."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def add(self, found: object) -> None:
        """Add *found* if it is a remote queue or a proxy."""
        if isinstance(found, Remote | Proxy):
            self._names.setdefault(found.manager, {})[found.name] = None

    def remove(self, found: object) -> None:
        """Remove *found*, which was added, if it is a remote queue or a proxy."""
        if isinstance(found, Remote | Proxy):
            names = self._names[found.manager]
            del names[found.name]
            if not names:
                del self._names[found.manager]

    def managers(self) -> Iterable[str]:
        """Return the queue managers for which any is bound."""
        return self._names.keys()

    def of(self, manager: str) -> Iterable[str]:
        """Return the names of those that are bound for *manager*, the oldest first."""
        return self._names.get(manager, {}).keys()
