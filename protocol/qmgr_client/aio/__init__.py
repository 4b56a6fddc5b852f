"""The client for asyncio.

    async with connect("127.0.0.1:7470") as queue_manager:
        await queue_manager.put("ORDERS", b"one ton of apples")
        async for message in queue_manager.consume("ORDERS"):
            ...
            await queue_manager.ack(message)

If the connection is lost, the client reconnects and repeats the unanswered requests. Every call has
one result: a value, or a RequestError with the code of the queue manager. Use a client only on the
event loop that opened it.
"""

from qmgr_client import exports
from qmgr_client.aio.admin import Admin
from qmgr_client.aio.consumer import Consumer
from qmgr_client.aio.group_put import GroupPut
from qmgr_client.aio.group_run import GroupGot, GroupPutDone
from qmgr_client.aio.queue_manager import QueueManager, connect
from qmgr_client.aio.reader import GroupReader
from qmgr_client.aio.subscription import Subscription
from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.aio.work import worker
from qmgr_client.exports import *  # noqa: F403  (the module has __all__)

__all__ = [
    "Admin",
    "Consumer",
    "GroupGot",
    "GroupPut",
    "GroupPutDone",
    "GroupReader",
    "QueueManager",
    "Subscription",
    "UnitOfWork",
    "connect",
    "worker",
]
__all__ += exports.__all__
