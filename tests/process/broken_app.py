"""Applications with a bug in their restart: ``python -m tests.process.broken_app skip ADDRESS``."""

import sys
from typing import Any

from qmgr_client.aio import group_run as aio_group_run
from tests.process.group_app import main

skipped = aio_group_run._skipped
next_ = aio_group_run._Reading._next


def skip() -> None:
    """Makes the application resume a put of a group one item too late."""

    def hasty(run: Any, found: Any, resume_from: int) -> int:
        return skipped(run, found, resume_from) + (found is not None)

    aio_group_run._skipped = hasty


def repeat() -> None:
    """Makes the application resume a put of a group at the last item, which it then puts twice."""

    def sluggish(run: Any, found: Any, resume_from: int) -> int:
        return max(0, skipped(run, found, resume_from) - 1)

    aio_group_run._skipped = sluggish


def overread() -> None:
    """Makes the application resume a read of a group one message too late."""

    async def hasty(self: Any, unit: Any, wait_ms: int) -> Any:
        at = self.at
        if at is not None and self._reader.current is None:
            self.at = at._replace(number=at.number + 1)
        found = await next_(self, unit, wait_ms)
        self.at = at
        return found

    aio_group_run._Reading._next = hasty  # type: ignore[method-assign]


if __name__ == "__main__":
    {"skip": skip, "repeat": repeat, "overread": overread}[sys.argv[1]]()
    main(sys.argv[2])
