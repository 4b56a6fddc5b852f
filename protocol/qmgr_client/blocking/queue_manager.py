# Generated from qmgr_client/aio/queue_manager.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""The client for asyncio.

    with connect("127.0.0.1:7470") as queue_manager:
        queue_manager.put("ORDERS", b"one ton of apples")
        for message in queue_manager.consume("ORDERS"):
            ...
            queue_manager.ack(message)

A lost connection is made again, what was under way is sent again, and every call has one result:
a value, or RequestError with the queue manager's code. Belongs to the loop it was opened on.
"""

from types import TracebackType

from qmgr_client.aio import queue_manager as aio_queue_manager
from qmgr_client.aio.queue_manager import CLOSE_MAX_MS
from qmgr_client.blocking.admin import Admin
from qmgr_client.blocking.bridge import ClientThread
from qmgr_client.blocking.groups import Groups
from qmgr_client.blocking.replies import Replies
from qmgr_client.blocking.settle import Settling
from qmgr_client.blocking.work import Work
from qmgr_client.duration import Duration


def connect(
    address: str,
    *,
    name: str = "",
    producer_id: bytes | None = None,
    reconnect: bool = True,
    wait_ms: Duration | None = 0,
    give_up_ms: Duration | None = None,
    coalesce: bool = True,
) -> "Client":
    """Return a client of the queue manager at *address*; ``with``, or ``open``, connects it.

    Args:
        address: "host:port" or "unix:/path".
        name: what the queue manager's log calls this client, and by which it keeps one out whose
            request met a bug. Else its program, host and process id: "billing.host7.4711".
        producer_id: 16 bytes that stay this application's over restarts. One process at a time may
            use them: the newest sends the others away. None makes new ones.
        reconnect: whether a lost connection is made again; else all that is open fails.
        wait_ms: how long the first connection is tried for; 0 tries once, None for ever.
        give_up_ms: how long a lost connection is tried for; None for ever.
        coalesce: whether what is put in one turn of the loop is sent together.

    Raises:
        AddressInvalid: *address* names nothing; a ConnectFailed and a ValueError.
        ValueError: *name* is no text of UTF-8 or over 255 characters, *producer_id* is not 16
            bytes, or a time is negative. It connects only once it is opened.
        RequestError: VALUE_INVALID, a time is not a duration, or a negative timedelta.
    """
    return Client(
        ClientThread(),
        aio_queue_manager.connect(
            address,
            name=name,
            producer_id=producer_id,
            reconnect=reconnect,
            wait_ms=wait_ms,
            give_up_ms=give_up_ms,
            coalesce=coalesce,
        ),
    )


class Client(Groups, Replies, Settling, Work):
    """A connection to a queue manager, for ``with``.

    Every method raises RequestError if the queue manager refuses a request, and ConnectionEnded
    once the client is closed. Use the object only on the event loop that opened it.
    """

    def __enter__(self) -> "Client":
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The queue manager's name."""
        return self._aio.name

    @property
    def admin(self) -> Admin:
        """What operators ask of it: queues, links, topics, jobs, history."""
        return Admin(self._thread, self._aio.admin)

    def open(self) -> None:
        """Connect, and stay so until :meth:`close`.

        Raises:
            ConnectFailed: what, where, and what to try.
            ConnectionEnded: the queue manager wants no such client.
        """
        self._thread.start(self._aio.open())

    def close(self, timeout_ms: Duration = CLOSE_MAX_MS) -> None:
        """Wait up to *timeout_ms* for puts and settles under way, then end. Any number of times."""
        self._thread.close(lambda: self._aio.close(timeout_ms))
