"""A manager's history, event by event, and the messages that should exist according to it."""

from typing import Any, NamedTuple

from qmgr_protocol import history
from qmgr_protocol import messages as m
from qmgrd.core.layout import keys
from tests.qmgrd.core.harness import Client, Manager

COMES = {history.PUT, history.PUBLISHED}
GOES = {
    history.SETTLED,
    history.EXPIRED,
    history.DEAD_LETTERED,
    history.TRANSFERRED,
    history.MOVED,
    history.REMOVED,
    history.LOST,
}


class Told(NamedTuple):
    """One event of one message."""

    event: str
    queue: str
    arrival: int
    priority: int | None
    message_id: str
    size: int | None
    delivered: int | None
    failed: int | None
    age_us: int | None
    peer: str
    target: str
    code: int
    at_us: int
    seq: int
    queue_id: int


def tell(seq: int, data: bytes) -> list[Told]:
    """Returns the events of a row."""
    found = []
    for section in history.decode(data).sections:
        columns = [history.values(column, section.messages) for column in section[8:]]
        for arrival, priority, origin, timestamp, *rest in zip(*columns, strict=True):
            uid = f"{origin}.{timestamp}"
            size, delivered, failed, age_us = rest
            found.append(
                Told(
                    history.EVENTS[section.kind],
                    section.queue,
                    arrival,
                    priority,
                    uid,
                    size,
                    delivered,
                    failed,
                    age_us,
                    section.peer,
                    section.target,
                    section.code,
                    section.at_us,
                    seq,
                    section.queue_id,
                )
            )
    return found


def history_of(manager: Manager, app: Client | None = None) -> list[Told]:
    """Returns the whole history of *manager*, read over the protocol."""
    app = app or manager.connect("historian")
    found: list[Told] = []
    after = app.ask(m.HistoryShow)["first"] - 1
    while rows := app.ask(m.HistoryRead, after)["rows"]:
        for seq, data in rows:
            found += tell(seq, data)
            after = seq
    return found


def brief(manager: Manager, queue: str = "Q") -> list[tuple[str, int]]:
    """Returns the events of a queue with their arrivals."""
    return [(told.event, told.arrival) for told in history_of(manager) if told.queue == queue]


def replay(told: list[Told]) -> set[tuple[int, int]]:
    """Returns the queue id and arrival of each message that exists according to the events.

    Raises: AssertionError: A message arrived twice, or left without having arrived.
    """
    there: set[tuple[int, int]] = set()
    kinds = {history.EVENTS[kind]: kind for kind in COMES | GOES}
    for one in told:
        place = one.queue_id, one.arrival
        kind = kinds.get(one.event)
        if kind in COMES:
            assert place not in there, f"{one} arrived twice"
            there.add(place)
        elif kind in GOES:
            assert place in there, f"{one} left without an arrival"
            there.discard(place)
        else:
            assert place in there, f"{one}: its message does not exist"
    return there


def stored(manager: Manager, *queues: str) -> set[tuple[int, int]]:
    """Returns the queue id and arrival of each stored message of *queues*, in all lanes."""
    found: set[tuple[int, int]] = set()
    for name in queues:
        queue_id = manager.queue(name).id
        for key, _ in manager.scan(keys.of_queue(keys.SPACE_MESSAGE, queue_id)):
            found.add((queue_id, keys.place(key)[1]))
    return found


def rows_stored(manager: Manager) -> list[Any]:
    """Returns the numbers of the stored rows."""
    return [int.from_bytes(key[1:], "big") for key, _ in manager.scan(keys.SPACE_HISTORY)]
