"""What the verbs of administration have in common: a request, and the row that answers it."""

from collections.abc import Awaitable, Callable
from typing import Any

from qmgr_protocol.errors import ErrorCode, RequestError


class Asker:
    """Asks a queue manager for rows. *ask* sends a request and returns what its Ok carries."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask

    async def _row(self, kind: type[Any], *fields: Any) -> Any:
        value = await self._ask(kind, *fields)
        if type(value) is not dict:
            raise RequestError(ErrorCode.FIELD_INVALID, f"{kind.__name__}: the value is no map")
        return value
