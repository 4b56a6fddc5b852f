"""Messages of a running queue manager, browsed in the order of arrival, for streams."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from qmgr_client.blocking import Client
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import DELIVERY
from qmgr_tables.stream.connection import Connection, DataLost

PAGE_MESSAGES, PAGE_BYTES = 1_000, 1 << 20
NO_QUEUE = 0  # an id that no queue has


class QueueExtent(NamedTuple):
    """A queue, and the arrival number at or below which no new message appears."""

    queue: str
    arrived: int


class Queues(NamedTuple):
    """The queues of a queue manager, by their ids."""

    queue_manager: str
    store_id: str
    queues: dict[int, QueueExtent]
    others: dict[str, str]  # queues of other kinds: kinds by name


class Page(NamedTuple):
    """Browsed messages."""

    items: list[bytes]
    delays: dict[int, int]  # index of a delayed message: ms until it becomes available
    wall_us: int  # the time from which delays and remaining times count


class QueueFeed(Connection):
    """The messages on the queues of one queue manager."""

    def __init__(self, address: str, wait_ms: int) -> None:
        """Prepares requests to the queue manager at *address*; waits if it is unavailable."""
        super().__init__(address, wait_ms, "qmgr messages")

    def state(self, wait_ms: int | None = None) -> Queues:
        """Returns the queues that applications put to, and their positions.

        Args:
            wait_ms: None waits as long as the feed does.

        Raises:
            ManagerAway: the queue manager does not answer.
        """
        status, rows = self.ask(
            lambda client: (client.admin.status(), client.admin.queue_list()), wait_ms
        )
        queues = {
            row["queue_id"]: QueueExtent(row["queue"], row["arrived"])
            for row in rows
            if row["kind"] == "local"
        }
        others = {row["queue"]: row["kind"] for row in rows if row["kind"] != "local"}
        return Queues(status["name"], status["store_id"], queues, others)

    def pages(
        self,
        store_id: str,
        queue: str,
        queue_id: int,
        after: int,
        until: int,
        messages_max: int = PAGE_MESSAGES,
    ) -> Iterator[Page]:
        """Yields the messages of a queue after *after* up to *until*, in pages.

        Yields nothing if that queue was deleted, even if another has its name.

        Args:
            messages_max: of the first page; each following one may be twice as long.

        Raises:
            ManagerAway: the queue manager does not answer.
            DataLost: the store is another one.
        """
        while after < until:
            page = self.ask(partial(_page, queue, after, messages_max))
            if page["store_id"] != store_id:
                raise DataLost(
                    f"{self.address}: found store {page['store_id']}, not {store_id}: "
                    "name the address of that one, or start again with a new checkpoint"
                )
            if page["queue_id"] != queue_id:
                return
            arrivals = [arrival_of(item) for item in page["items"]]
            count = sum(arrival <= until for arrival in arrivals)
            if count:
                delays = {at: ms for at, ms in page["delays"] if at < count}
                yield Page(page["items"][:count], delays, page["wall_us"])
            is_last = page["next"] is None or count < len(arrivals)
            after = until if is_last else page["next"][1]
            messages_max = min(2 * messages_max, PAGE_MESSAGES)


def _page(queue: str, after: int, messages_max: int, client: Client) -> dict[str, Any]:
    """Returns a page of the queue of that name; without such a queue, only the store's id."""
    try:
        return client.admin.browse_arrivals(queue, after, messages_max, PAGE_BYTES)
    except RequestError as error:
        if error.code in (ErrorCode.QUEUE_UNKNOWN, ErrorCode.QUEUE_IS_REMOTE):
            return {"store_id": client.admin.status()["store_id"], "queue_id": NO_QUEUE}
        raise


def arrival_of(item: bytes) -> int:
    """Returns the arrival of the message in a delivery item."""
    arrival: int = DELIVERY.unpack_from(item)[1]
    return arrival
