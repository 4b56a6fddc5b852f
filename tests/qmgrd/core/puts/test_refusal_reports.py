"""Tests of the reports about refused puts that operators receive."""

import json

from qmgr_protocol import messages as m
from qmgrd.core.catalogue.system import EVENTS
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import Client


def events(app: Client) -> list[str]:
    return [json.loads(x.body)["event"] for x in app.get(EVENTS, 100)]


def test_full_queue_is_reported_once_until_it_has_room(app: Client) -> None:
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    producer = app.producer()
    for _ in range(3):
        producer.put("SMALL", message(1), message(2), message(3))
    assert events(app).count("queue full") == 1
    app.ack(*app.get("SMALL"))
    producer.put("SMALL", message(4))
    producer.put("SMALL", message(5))
    assert events(app).count("queue full") == 1


def test_put_that_its_queue_never_sees_is_counted_whoever_brings_it(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    app.producer().put("Q", message(1), message(2))
    far = Far(app.manager)
    far.open()
    far.send(1, message(1))
    assert app.show("Q")["refused"] == 3
