"""The client without async.

    with connect("127.0.0.1:7470") as client:
        client.put("ORDERS", b"one ton of apples")
        for message in client.consume("ORDERS"):
            ...
            client.ack(message)

The asyncio client runs on a loop in a thread of its own; a call here is a call there. So there is
one implementation of everything that is difficult, heartbeats go out while the application is busy
or asleep, and threads may share a client. A call costs a change of threads and back, about 100
microseconds: for many messages use put_many, submit, get_many, ack_many and ack_soon.
"""

from qmgr_client.aio.group_run import GroupGot as GroupGot
from qmgr_client.aio.group_run import GroupPutDone as GroupPutDone
from qmgr_client.blocking.groups import GroupPut as GroupPut
from qmgr_client.blocking.groups import GroupReader as GroupReader
from qmgr_client.blocking.queue_manager import Client as Client
from qmgr_client.blocking.queue_manager import Consumer as Consumer
from qmgr_client.blocking.queue_manager import connect as connect
from qmgr_client.blocking.topics import Subscription as Subscription
from qmgr_client.blocking.unit import UnitOfWork as UnitOfWork
from qmgr_client.blocking.work import worker as worker
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
