"""The client for asyncio.

    async with connect("127.0.0.1:7470") as queue_manager:
        await queue_manager.put("ORDERS", b"one ton of apples")
        async for message in queue_manager.consume("ORDERS"):
            ...
            await queue_manager.ack(message)

A lost connection is made again, what was under way is sent again, and every call has one result:
a value, or RequestError with the queue manager's code. Belongs to the loop it was opened on.
"""

from qmgr_client.aio.consumer import Consumer as Consumer
from qmgr_client.aio.group_put import GroupPut as GroupPut
from qmgr_client.aio.group_run import GroupGot as GroupGot
from qmgr_client.aio.group_run import GroupPutDone as GroupPutDone
from qmgr_client.aio.queue_manager import QueueManager as QueueManager
from qmgr_client.aio.queue_manager import connect as connect
from qmgr_client.aio.reader import GroupReader as GroupReader
from qmgr_client.aio.subscription import Subscription as Subscription
from qmgr_client.aio.unit import UnitOfWork as UnitOfWork
from qmgr_client.aio.work import worker as worker
from qmgr_client.errors import ConnectFailed as ConnectFailed
from qmgr_client.errors import ConnectionEnded as ConnectionEnded
from qmgr_client.errors import MessageDamaged as MessageDamaged
from qmgr_client.errors import RequestTimeout as RequestTimeout
from qmgr_client.errors import UnknownOutcome as UnknownOutcome
from qmgr_client.message import DeadLetter as DeadLetter
from qmgr_client.message import Group as Group
from qmgr_client.message import Message as Message
from qmgr_client.outgoing import Outgoing as Outgoing
from qmgr_client.outgoing import PutResult as PutResult
from qmgr_protocol.errors import RequestError as RequestError
from qmgr_protocol.record import Uid as Uid
