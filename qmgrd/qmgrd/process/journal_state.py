"""The state of a journal on a server, as the daemon of an active member shows it to others."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.broker import Broker
from qmgrd.core.context.context import BeginSwitchOver
from qmgrd.store.logged_store import LoggedStore

RETRY_MS = 500


class ServerState(Protocol):
    """The state of the server of the journal, as the active member sees it."""

    trouble: str

    @property
    def away_s(self) -> float:
        """The time for which the server has not answered, in seconds."""


class JournalState:
    """An active member's view of its journal."""

    def __init__(
        self,
        store: LoggedStore,
        server: ServerState,
        wait_ms: int,
        facts: Callable[[], dict[str, Any]],
        prepare: Callable[[str], Awaitable[dict[str, Any]]],
    ) -> None:
        """Creates the view.

        Args:
            wait_ms: The time for which requests wait for the server, before they are refused.
            facts: A function that returns what is known about the members, with the ``member``
                that is active, its ``epoch``, and ``why`` it became active.
            prepare: A function that names the next active member in the journal, and returns the
                answer to the client. It raises RequestError if no member can become active.
        """
        self._store, self._server, self._wait_ms = store, server, wait_ms
        self._facts, self._prepare = facts, prepare

    def refusal(self) -> m.Goaway | None:
        """Returns the goodbye for all clients while the server is away for too long, or None."""
        away_ms = round(self._server.away_s * 1000)
        if away_ms <= self._wait_ms:
            return None
        why = f"the journal has waited for its server for {away_ms} ms: {self._server.trouble}"
        return m.Goaway(ErrorCode.JOURNAL_AWAY, why, RETRY_MS)

    def facts(self) -> dict[str, Any]:
        """Returns fields for the status."""
        journal = {
            "place": "postgresql",
            "record": self._store.position.number,
            "trouble": self._server.trouble,
        }
        return {"journal": journal | self._facts()}

    def report_start(self, broker: Broker) -> None:
        """Reports to operators, in the first turn, that this member is active."""
        facts = self._facts()
        shown = {key: facts[key] for key in ("member", "why", "epoch")}
        broker.context.event("member active", **shown)

    async def switch_over(self, wanted: BeginSwitchOver) -> "Switch":
        """Prepares a switch-over.

        Raises:
            RequestError: No member can become active.
        """
        facts = self._facts()
        if 0 < wanted.epoch < facts["epoch"]:
            value = {"member": facts["member"], "epoch": facts["epoch"], "addresses": []}
            return Switch(value, is_begun=False)
        return Switch(await self._prepare(wanted.member), is_begun=True)


class Switch(NamedTuple):
    """The result of a request to switch over."""

    answer: dict[str, Any] | RequestError
    is_begun: bool  # whether the daemon must end now


async def switch_over(journal: JournalState | None, wanted: BeginSwitchOver) -> Switch:
    """Prepares a switch-over, or returns the reason why there is none."""
    try:
        if journal is not None:
            return await journal.switch_over(wanted)
        why = (
            "the journal of this queue manager is local, so no other process can become active; "
            "to have standbys, give all of them the same journal.url"
        )
        return Switch(RequestError(ErrorCode.NO_STANDBY, why), is_begun=False)
    except RequestError as error:
        return Switch(error, is_begun=False)


def moved(error: Exception, name: str) -> m.Goaway:
    """Returns the goodbye of a member that is not active any more."""
    return m.Goaway(ErrorCode.NOT_ACTIVE, f"this member of {name} is a standby: {error}", RETRY_MS)
