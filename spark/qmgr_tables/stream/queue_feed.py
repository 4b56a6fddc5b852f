"""Messages of a running queue manager, browsed in the order of arrival, for streams."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from qmgr_client.blocking import Client
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import DELIVERY
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access
from qmgr_tables.stream.connection import Connection, DataLost

PAGE_MESSAGES, PAGE_BYTES = 1_000, 1 << 20
NO_QUEUE = 0  # queue id that does not exist


class QueueExtent(NamedTuple):
    """A queue and an arrival number. New messages have higher arrival numbers."""

    queue: str
    arrived: int


class Queues(NamedTuple):
    """The queues of a queue manager, by queue id."""

    queue_manager: str
    store_id: str
    queues: dict[int, QueueExtent]
    others: dict[str, str]  # kinds of the queues that are not local, by name


class Page(NamedTuple):
    """A page of browsed messages."""

    items: list[bytes]
    # Time in ms until a delayed message becomes available, by index of the message.
    delays: dict[int, int]
    wall_us: int  # wall-clock time at which delays and remaining times begin


class QueueFeed(Connection):
    """The messages on the queues of one queue manager."""

    def __init__(self, address: str, wait_ms: int, access: Access = BY_ENVIRONMENT) -> None:
        """Prepares requests to the queue manager at *address*. Requests wait up to *wait_ms*."""
        super().__init__(address, wait_ms, "qmgr messages", access)

    def state(self, wait_ms: int | None = None) -> Queues:
        """Returns the local queues on which applications put messages, and their positions.

        Args:
            wait_ms: The time to wait. None means the wait_ms of the feed.

        Raises:
            ManagerAway: The queue manager does not answer.
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

        Yields no page if the queue was deleted, even if a new queue has the same name.

        Args:
            messages_max: The size of the first page. Each later page may be twice as long.

        Raises:
            ManagerAway: The queue manager does not answer.
            DataLost: The queue manager has a different store.
        """
        while after < until:
            page = self.ask(partial(_page, queue, after, messages_max))
            if page["store_id"] != store_id:
                raise DataLost(
                    f"{self.address} has store {page['store_id']}, not {store_id}: "
                    "name the address of that store, or start again with a new checkpoint"
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
    """Returns a page of *queue*. If the queue does not exist, only the store's id is valid."""
    try:
        return client.admin.browse_arrivals(queue, after, messages_max, PAGE_BYTES)
    except RequestError as error:
        if error.code in (ErrorCode.QUEUE_UNKNOWN, ErrorCode.QUEUE_IS_REMOTE):
            return {"store_id": client.admin.status()["store_id"], "queue_id": NO_QUEUE}
        raise


def arrival_of(item: bytes) -> int:
    """Returns the arrival number of the message in a delivery item."""
    arrival: int = DELIVERY.unpack_from(item)[1]
    return arrival
