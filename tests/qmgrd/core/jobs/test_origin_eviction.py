"""Tests that a queue forgets the origins of which it has no messages left (A18)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.jobs.origin_eviction import LOOKED_AT_MAX, TARGETS_MAX
from qmgrd.core.jobs.retention import RETENTION_PERIOD_MS
from qmgrd.core.layout import keys
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record


def origins(manager: Manager, queue: str = "Q") -> list[str]:
    prefix = keys.of_queue(keys.SPACE_ORIGIN, manager.queue(queue).id)
    return [key[len(prefix) :].decode() for key, _ in manager.scan(prefix)]


def hour(manager: Manager) -> None:
    """Runs the hourly job."""
    manager.turn(RETENTION_PERIOD_MS)
    manager.rest()


def test_table_shrinks_once_the_messages_are_consumed_A18(store: AnyStore, app: Client) -> None:
    app.put("Q", b"1", uid=("A", 5))
    app.put("Q", b"2", uid=("B", 5))
    app.ack(*app.get("Q"))
    hour(app.manager)
    assert origins(app.manager) == ["B"]
    app.put("Q", b"again", uid=("A", 5))
    (refused,) = app.put_records("Q", record(b"2", uid=("B", 5)))
    assert refused.code is ErrorCode.DUPLICATE_MESSAGE
    app.manager.crash()
    assert origins(app.manager) == ["A", "B"]


def test_origins_of_one_message_each_by_the_hundred_thousand_A18() -> None:
    """The job processes the table in slices, so no turn takes longer than the others."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    count = 100_000
    table = manager.queue("Q").origins
    tx = manager.turns.broker.context.tx = manager.store.begin()
    for number in range(count):  # This writes the rows that puts and acks would leave.
        table.raise_to(tx, b"O%d" % number, 1)
    manager.queue("Q").flush(tx)
    manager.store.commit()
    app.put("Q", b"1", uid=("O77", 1))
    manager.turn(RETENTION_PERIOD_MS)
    limit = manager.config.limits.turn_rows
    while manager.turns.has_work:
        manager.turn()
        assert manager.turns.broker.context.rows <= 2 * limit
    assert origins(manager) == ["O77"]
    assert table.entries(manager.store, "", 10)[0].keys() == {"O77"}


@pytest.mark.parametrize("order", [("A", "AB"), ("AB", "A")])
def test_origins_with_a_common_prefix_are_distinct_A18(app: Client, order: tuple[str, str]) -> None:
    kept, gone = order
    app.put("Q", b"1", uid=(gone, 2**56 + 9), priority=9)
    app.put("Q", b"2", uid=(kept, 2**56 + 7))
    app.ack(*app.get("Q"))
    hour(app.manager)
    assert origins(app.manager) == [kept]


def test_origin_stays_if_a_few_checks_are_inconclusive_A18(app: Client) -> None:
    """A timestamp looks like letters, or many UIDs begin with the name of the origin."""
    high = int.from_bytes(b"zzzzzzzz", "big")
    app.put("Q", b"x", uid=("A", high))
    app.ack(*app.get("Q"))
    for number in range(LOOKED_AT_MAX + 1):
        app.put("Q", b"x", uid=("AB", number))
    hour(app.manager)
    assert origins(app.manager) == ["A", "AB"]
    app.ack(*app.get("Q", 10))
    hour(app.manager)
    assert origins(app.manager) == ["AB"]


def test_origin_stays_while_a_message_or_memory_refers_to_it_A18(app: Client) -> None:
    """The origin's messages are leased, delayed, remembered, or in a unit of work."""
    app.ask(m.QueueAlter, "Q", {"dedup_retention_ms": 3 * RETENTION_PERIOD_MS})
    app.put("Q", b"1", uid=("REMEMBERED", 1))
    app.ack(*app.get("Q"))
    app.put("Q", b"2", uid=("LEASED", 1))
    app.get("Q", lease_ms=m.LEASE_MAX_MS)
    app.put("Q", b"3", uid=("DELAYED", 1), delay_ms=5 * RETENTION_PERIOD_MS)
    hour(app.manager)
    assert origins(app.manager) == ["DELAYED", "LEASED", "REMEMBERED"]
    for _ in range(3):
        hour(app.manager)
    assert origins(app.manager) == ["DELAYED", "LEASED"]


def test_own_origin_stays_while_a_message_is_found_by_its_order_A18(app: Client) -> None:
    app.put("Q", b"own")
    app.put("Q", b"1", uid=("GONE", 1), priority=9)
    app.ack(*app.get("Q"))
    assert app.manager.queue("Q").counters.unindexed == 1
    hour(app.manager)
    assert origins(app.manager) == ["QM1"]
    app.ack(*app.get("Q"))
    hour(app.manager)
    assert origins(app.manager) == []


def test_queue_that_units_put_to_keeps_its_table_A18_G20(app: Client) -> None:
    app.put("Q", b"0", uid=("GONE", 1))
    app.ack(*app.get("Q"))
    manager = app.manager
    manager.turn(RETENTION_PERIOD_MS - 1_000)
    app.ask(m.UnitBegin, 1)
    app.ask(m.UnitPut, 1, "Q", [record(b"1", uid=("HELD", 1))])
    manager.turn(1_000)
    manager.rest()
    assert origins(manager) == ["GONE"]
    app.ask(m.UnitBackout, 1)
    hour(manager)
    assert origins(manager) == []


def test_origins_on_their_way_over_a_link_stay_A18(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    for queue in ("F@NYC", "LONGER@NYC"):
        app.ask(m.QueueCreate, queue)
    app.put("F@NYC", b"1", uid=("A", 1))
    app.put("LONGER@NYC", b"2", uid=("B", 1))
    hour(app.manager)
    assert origins(app.manager, "@NYC") == ["A", "B"]


def test_table_of_a_link_with_very_many_targets_stays_A18(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    for number in range(TARGETS_MAX + 1):
        app.ask(m.QueueCreate, f"F{number}@NYC")
        app.put(f"F{number}@NYC", b"1", uid=("A", 1))
    manager = app.manager
    queue = manager.queue("@NYC")
    tx = manager.turns.broker.context.tx = manager.store.begin()
    queue.origins.raise_to(tx, b"GONE", 1)
    queue.flush(tx)
    manager.store.commit()
    hour(manager)
    assert origins(manager, "@NYC") == ["A", "GONE"]


def test_origin_raised_in_the_very_turn_stays_A18(app: Client) -> None:
    app.put("Q", b"1", uid=("A", 1))
    app.ack(*app.get("Q"))
    manager = app.manager
    manager.advance(RETENTION_PERIOD_MS)
    app.put("Q", b"2", uid=("A", 2))
    manager.rest()
    audit(manager)
    assert origins(manager) == ["A"]


NAMES = st.sampled_from(["A", "AB", "ABC", "A-", "B"])
TICKS = st.sampled_from([0, 1, 5, 2**40, 0x4242424242424242, 2**63 - 1])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), NAMES, TICKS),
        st.tuples(st.just("ack"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("hour"), st.booleans(), st.just(0)),
    ),
    max_size=30,
)


@given(steps)
def test_origin_of_a_queued_message_is_never_forgotten_A18(steps: list[Any]) -> None:
    """Each put gets the same answer as it would from a queue that stores a set of all UIDs."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    there: set[tuple[str, int]] = set()
    for step, one, two in steps:
        if step == "put":
            refused = app.put_records("Q", record(b"x", uid=(one, two)))
            assert bool(refused) == ((one, two) in there)
            there.add((one, two))
        elif step == "ack" and (found := app.get("Q", one)):
            app.ack(*found)
            there -= {tuple(x.uid) for x in found}
        elif step == "hour":
            hour(manager)
            assert set(origins(manager)) == {origin for origin, _ in there}
            if one:
                manager.crash()
                app = manager.connect()
        audit(manager)


def test_own_origin_comes_back_with_the_next_put_A18(app: Client) -> None:
    app.put("Q", b"1")
    app.ack(*app.get("Q"))
    hour(app.manager)
    assert origins(app.manager) == []
    app.put("Q", b"2")
    assert origins(app.manager) == ["QM1"]
    assert records.decode(app.browse("Q")[0].record).uid is not None
