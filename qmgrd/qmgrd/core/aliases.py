"""Which aliases lead to a name."""

from qmgrd.core.named import Alias


class Aliases:
    """The aliases that are defined, by target. Invariant: no target is without an alias."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, alias: Alias) -> None:
        """Add *alias*."""
        self._names.setdefault(alias.target, {})[alias.name] = None

    def remove(self, alias: Alias) -> None:
        """Remove *alias*, which was added."""
        names = self._names[alias.target]
        del names[alias.name]
        if not names:
            del self._names[alias.target]

    def first_of(self, target: str) -> str | None:
        """Return the name of the oldest alias of *target*, or None."""
        return next(iter(self._names.get(target, ())), None)
