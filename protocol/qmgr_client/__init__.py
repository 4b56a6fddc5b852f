"""The client of a queue manager, for programs with and without asyncio.

    from qmgr_client import Message, QueueFull, connect          # without asyncio
    from qmgr_client.aio import connect                          # for asyncio

The package exports the blocking client and the names that both clients have in common. A name is
imported when it is first used. Therefore, a program loads only the modules that it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmgr_client.blocking import Client as Client
    from qmgr_client.blocking import connect as connect
    from qmgr_client.blocking import worker as worker
    from qmgr_client.exports import *  # noqa: F403  (the module has __all__)

_BLOCKING = ("Client", "connect", "worker")


def _exports() -> list[str]:
    return import_module("qmgr_client.exports").__all__  # type: ignore[no-any-return]


if not TYPE_CHECKING:  # With this function, a type checker would accept any name.

    def __getattr__(name: str) -> object:
        """Imports the public name *name*."""
        if name == "__all__":
            return [*_BLOCKING, *_exports()]
        if name in _BLOCKING:
            home = import_module("qmgr_client.blocking")
        elif name[0].isupper() and name in _exports():  # Modules have lower-case names.
            home = import_module("qmgr_client.exports")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(home, name)
        return found

    def __dir__() -> list[str]:
        """Returns all names of the package, including those that are not imported yet."""
        return sorted({*globals(), *_BLOCKING, *_exports()})
