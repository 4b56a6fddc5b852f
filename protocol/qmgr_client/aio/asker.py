"""What the verbs of administration have in common: a request, and the row that answers it."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from qmgr_protocol.errors import ErrorCode, RequestError

Row = TypeVar("Row")


class Asker:
    """Asks a queue manager for rows. *ask* sends a request and returns what its Ok carries."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask

    async def _row(self, row: type[Row], kind: type[Any], *fields: Any) -> Row:
        """Returns what answers a request of *kind*, which is a *row*, or at least a map."""
        value = await self._ask(kind, *fields)
        if type(value) is not dict:
            raise RequestError(ErrorCode.FIELD_INVALID, f"{kind.__name__}: the value is no map")
        return cast(Row, value)
