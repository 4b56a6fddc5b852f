"""Finds the aliases of a queue."""

from collections.abc import Callable

from qmgrd.core.catalogue.named import Alias


def _nothing() -> None:
    """Does nothing."""


class Aliases:
    """All aliases by target. Invariant: each target in the map has at least one alias."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}
        self.on_change: Callable[[], None] = _nothing  # called after a name reaches another queue

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, found: object) -> None:
        """Adds *found* if it is an alias."""
        if isinstance(found, Alias):
            self._names.setdefault(found.target, {})[found.name] = None
            self.on_change()

    def remove(self, found: object) -> None:
        """Removes *found*, which was added before, if it is an alias."""
        if isinstance(found, Alias):
            names = self._names[found.target]
            del names[found.name]
            if not names:
                del self._names[found.target]
            self.on_change()

    def first_of(self, target: str) -> str | None:
        """Returns the name of the oldest alias of *target*, or None."""
        return next(iter(self._names.get(target, ())), None)
