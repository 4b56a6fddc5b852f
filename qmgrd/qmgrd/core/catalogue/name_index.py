"""Finds names without a local queue by what they refer to: a queue, or a queue manager."""

from collections.abc import Callable, Iterable
from typing import Any

from qmgrd.core.catalogue.named import Alias, ProxySubscription, Remote


def _do_nothing() -> None:
    """Does nothing."""


class NameIndex:
    """The names of some kinds by what they refer to. Invariant: no entry is empty."""

    def __init__(self, referred: Callable[[object], str | None]) -> None:
        """Creates an empty index.

        Args:
            referred: Returns what an object of an indexed kind refers to, and None for others.
        """
        self._referred = referred
        self._names: dict[str, dict[str, None]] = {}
        # Called after a name begins or ends to refer to something.
        self.on_change: Callable[[], None] = _do_nothing

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, found: Any) -> None:
        """Adds *found* if it is of an indexed kind."""
        referred = self._referred(found)
        if referred is not None:
            self._names.setdefault(referred, {})[found.name] = None
            self.on_change()

    def remove(self, found: Any) -> None:
        """Removes *found*, which was added before, if it is of an indexed kind."""
        referred = self._referred(found)
        if referred is not None:
            names = self._names[referred]
            del names[found.name]
            if not names:
                del self._names[referred]
            self.on_change()

    def first_of(self, referred: str) -> str | None:
        """Returns the oldest name that refers to *referred*, or None."""
        return next(iter(self.of(referred)), None)

    def of(self, referred: str) -> Iterable[str]:
        """Returns the names that refer to *referred*, the oldest first."""
        return self._names.get(referred, {}).keys()

    def referred(self) -> Iterable[str]:
        """Returns everything to which a name refers."""
        return self._names.keys()


def target_of(found: object) -> str | None:
    """Returns the target of an alias, and None for other objects."""
    return found.target if isinstance(found, Alias) else None


def manager_of(found: object) -> str | None:
    """Returns the queue manager of a remote queue or proxy, and None for other objects."""
    return found.manager if isinstance(found, Remote | ProxySubscription) else None
