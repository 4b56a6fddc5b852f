"""The client without asyncio.

    with connect("127.0.0.1:7470") as client:
        client.put("ORDERS", b"one ton of apples")
        for message in client.consume("ORDERS"):
            ...
            client.ack(message)

Each client runs the asyncio client on an event loop in a separate thread. The thread answers
heartbeats while the application is busy. Threads may share a client. Changing to the client's
thread and back takes about 100 microseconds per call. For many messages, use put_many, submit,
get_many, ack_many and ack_soon.
"""

from qmgr_client import exports
from qmgr_client.aio.group_run import GroupGot, GroupPutDone
from qmgr_client.blocking.admin import Admin
from qmgr_client.blocking.consumer import Consumer
from qmgr_client.blocking.group_put import GroupPut
from qmgr_client.blocking.queue_manager import Client, connect
from qmgr_client.blocking.reader import GroupReader
from qmgr_client.blocking.subscription import Subscription
from qmgr_client.blocking.unit import UnitOfWork
from qmgr_client.blocking.work import worker
from qmgr_client.exports import *  # noqa: F403  (it has a list of its names)

__all__ = [
    "Admin",
    "Client",
    "Consumer",
    "GroupGot",
    "GroupPut",
    "GroupPutDone",
    "GroupReader",
    "Subscription",
    "UnitOfWork",
    "connect",
    "worker",
]
__all__ += exports.__all__
