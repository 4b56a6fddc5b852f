"""Tests of selections by one criterion, at a cost that does not depend on the depth."""

from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.layout import keys
from qmgrd.core.queue.selection import ALL, compile_weight, selection, weight
from qmgrd.core.selector.selector import Selector, compile_selector
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Delivery, Manager, delivery, items, record

GROUP = b"g" * 24


def got(app: Client, queue: str = "Q", wait_ms: int = 0, **fields: Any) -> list[Delivery]:
    """Gets the messages that *fields* select, and waits for the answer."""
    request = m.Get(app.next_id(), queue, fields.pop("count", 10), wait_ms, 0, 1 << 20, **fields)
    app.send(request)
    answer = app._wait(
        lambda x: type(x) in (m.Deliver, m.Ok, m.Error) and x.request_id == request.request_id
    )
    if type(answer) is m.Error:
        raise RequestError(ErrorCode(answer.code), answer.text)
    return items(answer) if type(answer) is m.Deliver else []


def browsed(app: Client, **fields: Any) -> list[bytes]:
    """Returns the bodies of all messages that a browse selects, page by page."""
    found: list[bytes] = []
    after, count = None, fields.pop("count", 100)
    while True:
        request = m.Browse(0, "Q", after, count, 1 << 20, **fields)
        value = app.ask(m.Browse, *request[1:])
        for item in value["items"]:
            found.append(delivery(0, item).body)
        after = value["next"]
        if after is None:
            return found


def fill(app: Client) -> None:
    app.put("Q", b"c1", correlation_id=b"c", priority=3)
    app.put("Q", b"c2", correlation_id=b"c", priority=7)
    app.put("Q", b"cc", correlation_id=b"cc")
    app.put("Q", b"g3", group=(GROUP, 3, True))
    app.put("Q", b"g1", group=(GROUP, 1, False), priority=1)
    app.put("Q", b"g2", group=(GROUP, 2, False))
    app.put("Q", b"uid", uid=("O", 7))


UID = records.encode_uid(records.Uid("O", 7))
WANTED: list[tuple[dict[str, Any], list[bytes]]] = [
    ({"correlation_id": b"c"}, [b"c2", b"c1"]),
    ({"group_id": GROUP}, [b"g1", b"g2", b"g3"]),
    ({"uid": UID}, [b"uid"]),
    ({"where": "priority > 4 or priority < 2"}, [b"c2", b"g1"]),
    ({"correlation_id": b"none"}, []),
    ({"uid": records.encode_uid(records.Uid("O", 8))}, []),
]


@pytest.mark.parametrize(("fields", "bodies"), WANTED)
def test_get_receives_its_selection_in_order(
    store: AnyStore, app: Client, fields: dict[str, Any], bodies: list[bytes]
) -> None:
    """Messages of a group are in the order of their numbers, and others in delivery order."""
    fill(app)
    app.manager.restart()
    app = app.manager.connect()
    assert [x.body for x in got(app, **fields)] == bodies
    assert got(app, **fields) == []
    assert len(app.get("Q", 10)) == 7 - len(bodies)


@pytest.mark.parametrize(("fields", "bodies"), WANTED)
@pytest.mark.parametrize("count", [1, 2, 100])
def test_browse_shows_its_selection_page_by_page(
    app: Client, fields: dict[str, Any], bodies: list[bytes], count: int
) -> None:
    fill(app)
    assert browsed(app, count=count, **fields) == bodies


@pytest.mark.parametrize(("fields", "bodies"), [WANTED[0], WANTED[1], WANTED[3]])
def test_consumer_receives_its_selection_as_it_arrives(
    app: Client, fields: dict[str, Any], bodies: list[bytes]
) -> None:
    app.ask(m.Consume, *m.Consume(0, "Q", 10, 1 << 20, 0, **fields)[1:])
    fill(app)
    app.manager.rest()
    assert sorted(x.body for x in app.delivered()) == sorted(bodies)


def test_acked_and_purged_messages_leave_no_index_rows(store: AnyStore, app: Client) -> None:
    fill(app)
    app.ack(*got(app, correlation_id=b"c"))
    app.ask(m.QueuePurge, "Q")
    for space in (keys.SPACE_CORRELATION, keys.SPACE_GROUP, keys.SPACE_UID):
        assert app.manager.scan(keys.of_queue(space, app.manager.queue("Q").id)) == []


@pytest.mark.parametrize("kind", [m.Get, m.Consume, m.Browse])
def test_two_criteria_at_once_are_refused(app: Client, kind: Any) -> None:
    fields = {"where": "priority = 1", "correlation_id": b"c"}
    rest = {"messages": 1, "bytes": 1} if kind is m.Consume else {}
    request = kind(request_id=0, queue="Q", **rest, **fields)
    with pytest.raises(RequestError, match="where and correlation_id") as error:
        app.ask(kind, *request[1:])
    assert error.value.code == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize("kind", [m.Get, m.Consume, m.Browse])
def test_invalid_selector_keeps_the_connection(app: Client, kind: Any) -> None:
    rest = {"messages": 1, "bytes": 1} if kind is m.Consume else {}
    request = kind(request_id=0, queue="Q", where="priority >", **rest)
    assert app.code_of(kind, *request[1:]) == ErrorCode.SELECTOR_INVALID
    app.put("Q", b"1")
    assert len(app.get("Q")) == 1


@pytest.mark.parametrize("fields", [{"correlation_id": b"c"}, {"group_id": GROUP}, {"uid": UID}])
def test_delayed_message_is_selected_by_a_selector_only(
    app: Client, fields: dict[str, Any]
) -> None:
    app.put("Q", b"1", correlation_id=b"c", delay_ms=1_000)
    request = m.Browse(0, "Q", delayed=True, **fields)
    assert app.code_of(m.Browse, *request[1:]) == ErrorCode.VALUE_INVALID
    assert browsed(app, delayed=True, where="correlation_id = 'c'") == [b"1"]


def test_invalid_uid_is_refused(app: Client) -> None:
    assert app.code_of(m.Get, *m.Get(0, "Q", uid=b"short")[1:]) == ErrorCode.VALUE_INVALID


def test_nothing_selected_is_everything(app: Client) -> None:
    assert selection(app.manager.queue("Q"), "", b"", b"") is ALL


def test_missing_message_is_an_empty_answer_G24(app: Client) -> None:
    """2034: A get or a browse returns nil instead of an error, as the message may have left."""
    app.put("Q", b"uid", uid=("O", 7))
    app.ack(*got(app, uid=UID))
    assert got(app, uid=UID) == []
    assert browsed(app, uid=UID) == []


class Counted(MemoryStore):
    """A store that counts its reads."""

    reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return super().get(key)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(start, stop):
            self.reads += 1
            yield row


def reads_at(depth: int, fields: dict[str, Any]) -> tuple[int, int]:
    """Returns the number of rows that a get and a browse read on a queue of that depth."""
    store = Counted()
    manager = Manager(store)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"x"] * depth)
    app.put("Q", b"y", correlation_id=b"c", uid=("O", 7), group=(GROUP, 1, True))
    app.put("Q", *[b"x"] * depth, correlation_id=b"other")
    before = store.reads
    assert browsed(app, **fields) == [b"y"]
    between = store.reads
    assert len(got(app, **fields)) == 1
    after = store.reads
    audit(manager)
    return between - before, after - between


@pytest.mark.parametrize("fields", [{"correlation_id": b"c"}, {"group_id": GROUP}, {"uid": UID}])
def test_cost_does_not_depend_on_depth(fields: dict[str, Any]) -> None:
    found = reads_at(100, fields)
    assert found == reads_at(10_000, fields)
    assert max(found) < 15


def test_page_after_a_cursor_reads_that_page_only() -> None:
    store = Counted()
    manager = Manager(store)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"x"] * 3_000, correlation_id=b"c")
    before = store.reads
    app.ask(m.Browse, *m.Browse(0, "Q", [4, 2_500], 10, 1 << 20, correlation_id=b"c")[1:])
    assert store.reads - before < 50


@pytest.mark.parametrize(
    "after", [[4, 0, "x"], [4, 0, -1], [4, 0, 2**40], [255, 2**63 - 1, 2**32 - 1]]
)
def test_cursor_of_another_kind_is_still_a_place(app: Client, after: list[Any]) -> None:
    """Additional fields, perhaps from a newer client, are ignored."""
    fill(app)
    value = app.ask(m.Browse, *m.Browse(0, "Q", after, 10, 1 << 20, group_id=GROUP)[1:])
    assert value["next"] is None


def test_uid_in_two_places_is_one_message(app: Client) -> None:
    app.ask(m.QueueCreate, "R")
    for queue in ("Q", "R"):
        assert app.put_records(queue, record(queue.encode(), uid=("O", 7))) == []
    assert [x.body for x in got(app, "R", uid=UID)] == [b"R"]
    assert [x.body for x in got(app, "Q", uid=UID)] == [b"Q"]


def weigh(manager: Manager, selector: Selector | None) -> list[int]:
    found = manager.scan(keys.lane(manager.queue("Q").id, keys.LANE_READY))
    tx = manager.store.begin()
    weights = [weight(selector, tx, value) for _, value in found]
    manager.store.abort()
    return weights


SLOW = " OR ".join(["h LIKE '%" + "_" * 250 + "b%'"] * 14)


def test_cost_of_a_check_depends_on_the_message(app: Client) -> None:
    """A check does not unpack a long body. It unpacks a long envelope, which LIKE may search."""
    app.put("Q", b"x", bytes(1_000_000))
    app.put("Q", b"x", envelope={"headers": {"h": "a" * 4_096}})
    app.put("Q", b"x", envelope={"headers": {f"h{n}": n for n in range(3_000)}})
    assert weigh(app.manager, None) == [1, 1, 1, 1]
    plain = weigh(app.manager, compile_selector("priority = 4 AND a LIKE 'b%'"))
    assert plain[:2] == [1, 101]
    assert plain[2] < 12 < 50 < plain[3] < 60
    slow = weigh(app.manager, compile_selector(SLOW))
    assert 600 < slow[0] < slow[1] < 1_000
    assert 2_500 < slow[2] < slow[3] < 3_500


def test_cost_of_compiling_depends_on_the_selector() -> None:
    assert compile_weight("") == 0
    assert compile_weight("carrier LIKE 'U%' AND priority = 4") < 10
    assert 600 < compile_weight("a" * 4_000) < 700
    assert compile_weight("h LIKE '" + "%_a" * 1_300 + "'") > 3_000


def test_damaged_entry_costs_little(manager: Manager) -> None:
    tx = manager.store.begin()
    assert weight(compile_selector("priority = 4"), tx, b"rotted") == 1
    manager.store.abort()
