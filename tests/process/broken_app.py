"""Applications that resume wrongly, to run: ``python -m tests.process.broken_app skip ADDRESS``."""

import sys
from typing import Any

from qmgr_client.aio import group_run as aio_group_run
from tests.process.group_app import main

skipped = aio_group_run._skipped
next_ = aio_group_run._Reading._next


def skip() -> None:
    """A group that is put goes on behind the item that is missing."""

    def hasty(run: Any, found: Any, resume_from: int) -> int:
        return skipped(run, found, resume_from) + (found is not None)

    aio_group_run._skipped = hasty


def repeat() -> None:
    """A group that is put goes on with the item that was put last."""

    def sluggish(run: Any, found: Any, resume_from: int) -> int:
        return max(0, skipped(run, found, resume_from) - 1)

    aio_group_run._skipped = sluggish


def overread() -> None:
    """A group that is read goes on behind the message that is due."""

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
