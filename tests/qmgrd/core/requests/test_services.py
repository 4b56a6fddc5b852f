"""The parts of the queue manager that handlers use."""

from qmgrd.core.requests.services import Services
from tests.qmgrd.core.harness import Client


def test_handlers_use_the_parts_of_the_broker(app: Client) -> None:
    broker = app.manager.turns.broker
    assert isinstance(broker.services, Services)
    assert broker.services.context is broker.context
    assert broker.services.catalogue is broker.catalogue
    assert broker.services.jobs is broker.jobs
