"""Handles operators' requests about work that was set aside."""

from typing import Any

from qmgr_protocol import messages as m
from qmgrd.core.requests.services import Services
from qmgrd.core.requests.set_aside import drop, retry
from qmgrd.core.sessions.session import Session


class AsideAdmin:
    """Handles requests about items that were set aside. Holds no state."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts

    def aside_list(self, session: Session, message: m.AsideList) -> None:
        """Lists the items in the order of their numbers, one page at a time."""
        context = self._parts.context
        numbers = [number for number in context.aside.items if number > message.after]
        page = numbers[: message.limit]
        context.count_read(len(page), 0)
        items = [context.aside.items[number].describe() for number in page]
        further = page[-1] if len(numbers) > len(page) else None
        self._parts.context.reply(
            session.connection, message.request_id, {"items": items, "next": further}
        )

    def aside_retry(self, session: Session, message: m.AsideRetry) -> None:
        """Retries the work of an item."""
        item, when = retry(self._parts, message.number)
        self._log(session, "set aside, to be retried", item.describe())
        self._parts.context.reply(
            session.connection, message.request_id, item.describe() | {"retried": when}
        )

    def aside_drop(self, session: Session, message: m.AsideDrop) -> None:
        """Deletes an item permanently."""
        item = drop(self._parts, message.number)
        self._log(session, "set aside, now deleted", item.describe())
        self._parts.context.reply(session.connection, message.request_id, item.describe())

    def _log(self, session: Session, event: str, item: dict[str, Any]) -> None:
        facts = {name: item[name] for name in ("number", "kind", "what")}
        self._parts.context.note("warning", event, by=session.name, **facts)
