"""Tests that puts by clients and puts on their behalf have the same refusals and counters."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.broker import Broker
from qmgrd.core.puts import client_put
from tests.qmgrd.core.harness import Client, record


def store(app: Client, name: str) -> list[client_put.Stored | RequestError]:
    """Puts a record to *name* in a separate turn, as the daemon does."""
    found: list[client_put.Stored | RequestError] = []

    def put(broker: Broker) -> None:
        try:
            batch = [record(b"x")]
            stored = client_put.store(
                broker.context, broker.catalogue, broker.dead_letters, name, batch
            )
            found.append(stored)
        except RequestError as error:
            found.append(error)

    app.manager.turns.intake.event(0, put)
    app.manager.turn()
    return found


def test_record_is_stored_where_its_name_leads(app: Client) -> None:
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": "Q"})
    (stored,) = store(app, "ALIAS")
    assert not isinstance(stored, RequestError)
    queue, target, done = stored
    assert (queue.name, target, done.refused) == ("Q", "", [])
    assert app.bodies("Q") == [b"x"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("NONE", ErrorCode.QUEUE_UNKNOWN), ("SYSTEM.EVENTS", ErrorCode.QUEUE_IS_SYSTEM)],
)
def test_name_that_takes_no_puts_is_refused(app: Client, name: str, code: ErrorCode) -> None:
    (error,) = store(app, name)
    assert isinstance(error, RequestError)
    assert error.code is code


def test_queue_counts_what_it_never_saw(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    store(app, "Q")
    app.ask(m.QueueAlter, "Q", {"put_inhibit": False})
    app.manager.store.disk_free_bytes = 0
    (error,) = store(app, "Q")
    assert isinstance(error, RequestError)
    assert error.code is ErrorCode.STORE_FULL
    assert app.show("Q")["refused"] == 2
