"""The base class of administration: it sends a request and returns the row of the answer."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError

Row = TypeVar("Row")


class Asker:
    """Requests for rows. *ask* sends a request and returns the value of the queue manager's Ok."""

    def __init__(self, ask: Callable[..., Awaitable[Any]]) -> None:
        self._ask = ask

    async def _row(self, row: type[Row], kind: type[m.RequestWithId], *fields: Any) -> Row:
        """Sends a request of *kind* and returns the *row* in the answer.

        Raises:
            RequestError: FIELD_INVALID if the answer is not a map.
        """
        value = await self._ask(kind, *fields)
        if type(value) is not dict:
            raise RequestError(ErrorCode.FIELD_INVALID, f"{kind.__name__}: the answer is not a map")
        return cast(Row, value)
