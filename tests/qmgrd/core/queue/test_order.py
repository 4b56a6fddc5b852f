"""Tests of physical order over two lanes, compared with sorted messages."""

from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import record as records
from qmgr_protocol.record import Fields
from qmgrd.core.layout import keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.queue import order
from qmgrd.core.queue.put import put
from qmgrd.core.queue.queue import Queue
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, record

NOW = Now(1, 1_700_000_000_000_000)
Place = tuple[int, int]

messages = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=20)
places = st.tuples(st.integers(0, 9), st.integers(0, 22))


def filled(given_messages: list[tuple[int, bool]]) -> tuple[Queue, MemoryStore, list[Place]]:
    """Returns a queue whose messages vary in priority and group, and their positions."""
    queue = Queue(1, "Q", Bounds(100, 10**6, 1_000, 100), Counters(), Ids(1), Schedule())
    tx = MemoryStore()
    batch = [
        records.encode(
            Fields(b"x", priority=priority, group=(b"g" * 24, i + 1, False) if grouped else None)
        )
        for i, (priority, grouped) in enumerate(given_messages)
    ]
    put(queue, tx, NOW, Stamper("QM1", 0), batch, 10**6)
    found = [(priority, 1 + i) for i, (priority, _) in enumerate(given_messages)]
    return queue, tx, sorted(found, key=lambda place: (-place[0], place[1]))


@given(messages, places)
def test_messages_after_a_position_are_in_order_of_priority_and_arrival(
    given_messages: list[tuple[int, bool]], start: Place
) -> None:
    queue, tx, expected = filled(given_messages)
    found = [keys.place(key) for key, _ in order.behind(queue, tx, *start)]
    assert found == [x for x in expected if (-x[0], x[1]) >= (-start[0], start[1])]


@given(messages, places, st.integers(0, 22))
def test_each_lane_of_a_priority_has_a_start_of_its_own(
    given_messages: list[tuple[int, bool]], start: Place, grouped_arrival: int
) -> None:
    priority, arrival = start
    queue, tx, expected = filled(given_messages)
    rows = order.of_priority(queue, tx, priority, arrival, grouped_arrival)
    found = [keys.place(key) for key, _ in rows]
    starts = {False: arrival, True: grouped_arrival}
    assert found == [
        (of, at)
        for of, at in expected
        if of == priority and at >= starts[given_messages[at - 1][1]]
    ]


@given(messages, st.integers(0, 22))
def test_each_lane_and_priority_is_read_in_order_of_arrival(
    given_messages: list[tuple[int, bool]], start: int
) -> None:
    queue, tx, expected = filled(given_messages)
    found = [keys.place(key) for key, _ in order.by_arrival(queue, tx, start)]
    assert found == [x for x in sorted(expected, key=lambda place: place[1]) if x[1] >= start]


def test_get_and_browse_meet_both_lanes_in_one_order(app: Client) -> None:
    app.put_records(
        "Q",
        *[
            record(b"%d" % number, priority=priority, group=group)
            for number, (priority, group) in enumerate(
                [
                    (4, None),
                    (4, (b"g" * 24, 2, False)),
                    (9, (b"g" * 24, 1, False)),
                    (4, None),
                    (5, None),
                    (4, (b"h" * 24, 7, True)),
                ]
            )
        ],
    )
    expected = [b"2", b"4", b"0", b"1", b"3", b"5"]
    assert app.bodies("Q") == expected
    assert [x.body for x in app.get("Q", 4)] == expected[:4]
    assert [x.body for x in app.get("Q", 4)] == expected[4:]
