"""What a retry of dead letters would do: which would go, and why others would stay."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qmgr_tools.cli import destination, preview
from qmgr_tools.cli.command import Call

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message

DEAD = "dead_code IS NOT NULL"
NOT_DEAD = "dead_code IS NULL"


def dead(where: str) -> str:
    """Return a selector of the dead letters that *where* selects; nothing selects all."""
    return f"{DEAD} AND ({where})" if where else DEAD


def is_of_dead(row: Mapping[str, Any]) -> bool:
    """Return whether a move with that *row* of a job is one of dead letters that go back."""
    return row.get("retries_max", 0) > 0 and str(row.get("where", "")).startswith(DEAD)


def no_dead_letters(client: "Client", queue: str, where: str) -> dict[str, int]:
    """Return how many messages *where* selects that are no dead letters; by that reason, if any."""
    from qmgrd.core.jobs.retry import NO_DEAD_LETTER  # takes 100 ms

    selector = f"({where}) AND {NOT_DEAD}" if where else NOT_DEAD
    count = sum(1 for _ in client.browse(queue, where=selector))
    return {NO_DEAD_LETTER: count} if count else {}


def preview_retry(
    call: Call, client: "Client", queue: str, to: str, where: str, retries_max: int, limit: int
) -> None:
    """Tell what would go back, each to its own queue or all *to* one, and what would stay.

    Raises:
        RequestError: the job would be refused.
    """
    local = destination.source(client, queue)
    if to:
        destination.waits(client, local, to, 0)  # Before much is read for nothing.
    homes = _Homes(client, local, to, retries_max)
    found = preview.preview(client, local, dead(where) if to else where, limit, homes.why_stays)
    bound = {to: found.messages} if to else homes.bound
    ways = (destination.waits(client, local, name, count) for name, count in bound.items())
    waits = next(filter(None, ways), "")
    facts = {"queue": queue, "to": to or None, "waits": waits or None, "stay": found.stay}
    words = f"send {{messages}} from {queue} to {to or 'where each comes from'}"
    preview.tell(call, found, facts, words, waits)


class _Homes:
    """The queues that dead letters come from, as far as they are there."""

    def __init__(self, client: "Client", source: str, to: str, retries_max: int) -> None:
        self._source = source
        self._to = to
        self._retries_max = retries_max
        self._manager = client.admin.status()["name"]
        self._rows = {str(row["queue"]): row for row in client.admin.queue_list()}
        self._subscriptions = {str(row["subscription"]) for row in client.admin.subscription_list()}
        self.bound: dict[str, int] = {}  # how many would go to each

    def why_stays(self, message: "Message") -> str:
        """Return why *message* would not go, in the words of the job; nothing if it would."""
        from qmgrd.core.jobs import retry  # takes 100 ms

        letter = message.dead
        if letter is None:
            return retry.NO_DEAD_LETTER
        if letter.retries >= self._retries_max:
            return retry.went_back_often(letter.retries)
        home = retry.home({"queue": letter.queue, "manager": letter.manager}, self._manager)
        if not self._to and (why := self._why_not_to(home)):
            return why
        self.bound[home] = self.bound.get(home, 0) + 1
        return ""

    def _why_not_to(self, home: str) -> str:
        from qmgrd.core.catalogue import missing
        from qmgrd.core.jobs import retry

        row = self._rows.get(home)
        if home in self._subscriptions:
            return missing.is_published(home).text
        if row is None:
            return retry.missing(home)
        local = row.get("alias_of") or home
        if local not in self._rows:
            return missing.no_target(home, local).text.partition("; ")[0]
        return retry.is_here(local) if local == self._source else ""
