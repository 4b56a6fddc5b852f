"""The parts of a queue manager that handle requests."""

from typing import NamedTuple

from qmgrd.core.access.users import Users
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.requests.queues import QueueAdmin
from qmgrd.core.requests.rights import Guard
from qmgrd.core.requests.template_pass import TemplatePass
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.sessions.connection import Connections
from qmgrd.core.sessions.delivery import Delivery
from qmgrd.core.sessions.settlements import Settlements
from qmgrd.core.sessions.streams import Streams
from qmgrd.core.sessions.subscriptions import Subscriptions
from qmgrd.core.sessions.units import Units


class Services(NamedTuple):
    """The parts of a queue manager that handle requests."""

    context: Context
    catalogue: Catalogue
    jobs: Jobs
    dead_letters: DeadLetters
    delivery: Delivery
    settlements: Settlements
    streams: Streams
    units: Units
    subscriptions: Subscriptions
    connections: Connections
    template_pass: TemplatePass
    admin: QueueAdmin
    users: Users
    guard: Guard
    secret: bytes  # the secret of the store
