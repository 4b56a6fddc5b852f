"""The base class of all methods of a client: it sends requests and puts over the session."""

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

from qmgr_client import destination
from qmgr_client.aio.session import Session, Unopened
from qmgr_client.outgoing import Outgoing, PutResult, encode
from qmgr_client.sansio.core import ClientCore
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError

CHECKED_NAMES_MAX = 10_000


class Channel:
    """Requests and puts over the session. The classes with public methods inherit from it."""

    _session: Session = cast(Session, Unopened())

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._checked_names: set[str] = set()

    async def _ask(self, kind: type[m.RequestWithId], *fields: Any) -> Any:
        """Sends a request of *kind* and returns the value in the queue manager's answer."""
        ticket, future = self._session.request(kind, *fields)
        try:
            return await future
        except asyncio.CancelledError:
            self._session.abandon(ticket)
            raise

    async def _submit(self, queue: str, outgoing: Outgoing) -> "asyncio.Future[PutResult]":
        """Passes a put to the session as soon as the window has room for it."""
        if outgoing.deliver_at is not None or outgoing.key is not None:
            outgoing = outgoing.resolved(datetime.now(UTC))
        record = encode(outgoing)
        if type(queue) is not str or queue not in self._checked_names:
            self._check_name(queue)
        if not self._core.can_put:
            await self._session.room()
        return self._session.put(queue, record, outgoing.uid)

    def _check_name(self, queue: str) -> None:
        if not isinstance(queue, str):
            text = f"the name of a queue must be a str, not {queue!r}"
            raise RequestError(ErrorCode.NAME_INVALID, text)
        destination.check(queue)
        if len(self._checked_names) >= CHECKED_NAMES_MAX:
            self._checked_names.clear()
        self._checked_names.add(queue)
