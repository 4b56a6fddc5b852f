"""The base of the verbs of administration: a request, and the row that answers it."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError

Row = TypeVar("Row")


class Asker:
    """Asks a queue manager for rows. *ask* sends a request and returns the value of its Ok."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask

    async def _row(self, row: type[Row], kind: type[m.RequestWithId], *fields: Any) -> Row:
        """Sends a request of *kind* and returns its answer, which is a *row*.

        Raises:
            RequestError: FIELD_INVALID, the answer is not a map.
        """
        value = await self._ask(kind, *fields)
        if type(value) is not dict:
            raise RequestError(ErrorCode.FIELD_INVALID, f"{kind.__name__}: the value is not a map")
        return cast(Row, value)
