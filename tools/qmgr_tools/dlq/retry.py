"""Previews a retry: the dead letters that would move, and the reasons why others would stay."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qmgr_protocol.errors import ErrorCode
from qmgr_tools.cli import destination, preview
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.humanize import counted

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message

DEAD = "dead_code IS NOT NULL"
NOT_DEAD = "dead_code IS NULL"
NOT_DEAD_REASON = "not a dead letter"
NOT_AUTHORIZED_REASON = "its sender may not put it on its queue (--to)"


def dead(where: str) -> str:
    """Returns a selector for the dead letters that *where* selects, or for all if it is ""."""
    return f"{DEAD} AND ({where})" if where else DEAD


def is_of_dead(row: Mapping[str, Any]) -> bool:
    """Returns whether the job of *row* moves dead letters back."""
    return row.get("retries_max", 0) > 0 and str(row.get("where", "")).startswith(DEAD)


def no_dead_letters(client: "Client", queue: str, where: str) -> dict[str, int]:
    """Returns the number of selected messages that are not dead letters, by reason."""
    selector = f"({where}) AND {NOT_DEAD}" if where else NOT_DEAD
    count = sum(1 for _ in client.browse(queue, where=selector))
    return {NOT_DEAD_REASON: count} if count else {}


def preview_retry(
    call: Call, client: "Client", queue: str, to: str, where: str, retries_max: int, limit: int
) -> None:
    """Prints the messages that would move to their original queues or *to*, and those that stay.

    Raises:
        RequestError: If the job would be refused.
    """
    local = destination.source(client, queue)
    if to:
        destination.waits(client, local, to, 0)  # Check the target before reading the queue.
    origins = _Origins(client, local, to, retries_max)
    found = preview.preview(client, local, dead(where) if to else where, limit, origins.stay_reason)
    targets = {to: found.messages} if to else origins.targets
    reasons = (destination.waits(client, local, name, count) for name, count in targets.items())
    waits = next(filter(None, reasons), "")
    facts = {"queue": queue, "to": to or None, "waits": waits or None, "stay": found.stay}
    words = f"move {{messages}} from {queue} to {to or 'their original queues'}"
    preview.show(call, found, facts, words, waits)


class _Origins:
    """The original queues of dead letters."""

    def __init__(self, client: "Client", source: str, to: str, retries_max: int) -> None:
        self._source = source
        self._to = to
        self._retries_max = retries_max
        self._manager = client.admin.status()["name"]
        self._rows = {str(row["queue"]): row for row in client.admin.queue_list()}
        self._subscriptions = {str(row["subscription"]) for row in client.admin.subscription_list()}
        self.targets: dict[str, int] = {}  # number of messages that would move, by target

    def stay_reason(self, message: "Message") -> str:
        """Returns the reason why *message* would stay, or "" if it would move."""
        letter = message.dead
        if letter is None:
            return NOT_DEAD_REASON
        if letter.retries >= self._retries_max:
            return f"already retried {counted(letter.retries, 'time')} (--max-retries)"
        if letter.code == ErrorCode.SENDER_NOT_AUTHORIZED and not self._to:
            return NOT_AUTHORIZED_REASON
        home = letter.queue
        if letter.manager != self._manager:
            home = f"{home}@{letter.manager}"
        if not self._to and (why := self._refusal(home)):
            return why
        self.targets[home] = self.targets.get(home, 0) + 1
        return ""

    def _refusal(self, home: str) -> str:
        """Returns the reason why a message cannot move to *home*, or ""."""
        if home in self._subscriptions:
            return f"{home} is a subscription, which accepts only publications"
        if home not in self._rows:
            return f"queue {home} does not exist here" if home else "the original queue is unknown"
        local = self._rows[home].get("alias_of") or home
        if local not in self._rows:
            return f"{home} is an alias of queue {local}, which does not exist here"
        return f"queue {local} is the original queue" if local == self._source else ""
