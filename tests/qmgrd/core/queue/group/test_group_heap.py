"""Tests that the message in the first position comes next in pinned order, grouped or not."""

from heapq import heapify, heappop, heappush

from hypothesis import example, given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgrd.core.queue.group.group_heap import GroupHeap
from tests.group_player import group_id
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Manager, items, record

# Fields of a wish: a group letter or "", a priority, a flag, and a correlation id. With the flag, a
# lower number precedes the message. With a correlation id, messages are put in single steps.
wishes = st.lists(
    st.tuples(
        st.sampled_from(["", "A", "B", "C"]),
        st.sampled_from([4, 4, 4, 9]),
        st.booleans(),
        st.sampled_from([b"", b"", b"c"]),
    ),
    max_size=30,
)
PLAIN = ("A", 4, False, b"")
credits_ = st.lists(st.integers(1, 9), min_size=1, max_size=4)


def numbered(wished: list[tuple[str, int, bool, bytes]]) -> list[tuple[str, int, int, bytes]]:
    """Returns letter, number, priority and correlation id of messages, some out of order."""
    found: list[tuple[str, int, int, bytes]] = []
    at: dict[str, list[int]] = {}
    for letter, priority, swaps, correlation in wished:
        numbers = at.setdefault(letter, [])
        numbers.append(len(numbers) + 1)
        found.append((letter, numbers[-1], priority, correlation))
        before = [i for i in range(len(found) - 1) if found[i][0] == letter != ""]
        if swaps and before:
            other = found[before[-1]]
            found[before[-1]] = (letter, found[-1][1], *other[2:])
            found[-1] = (letter, other[1], priority, correlation)
    return found


def in_turn(told: list[tuple[str, int, int, bytes]]) -> list[str]:
    """Returns the messages in the expected order: each time, the first one that may be next."""
    places = {
        (letter, number): (-priority, at) for at, (letter, number, priority, _) in enumerate(told)
    }
    ahead = [(place, *who) for who, place in places.items() if not who[0] or who[1] == 1]
    heapify(ahead)
    found: list[str] = []
    while ahead:
        _, letter, number = heappop(ahead)
        found.append(f"{letter}{number}")
        behind = (letter, number + 1)
        if letter and behind in places:
            heappush(ahead, (places[behind], *behind))
    return found


@example([PLAIN, PLAIN, ("", 4, False, b""), PLAIN], [9])
@given(wishes, credits_)
def test_first_message_is_next(
    wished: list[tuple[str, int, bool, bytes]], credits_: list[int]
) -> None:
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    told = numbered(wished)
    batch = []
    for letter, number, priority, correlation in told:
        group = (group_id(letter), number, False) if letter else None
        body = f"{letter}{number}".encode()
        batch.append(record(body, group=group, priority=priority, correlation_id=correlation))
    assert not batch or app.put_records("Q", *batch) == []
    assert [one.decode() for one in consumed(app, len(batch), credits_)] == in_turn(told)
    audit(manager)


def consumed(app: Client, count: int, credits_: list[int]) -> list[bytes]:
    """Returns the bodies that a pinned consumer receives, with acknowledgements in most turns."""
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", credits_[0], 1 << 30, order=m.PINNED))
    found: list[bytes] = []
    for turn in range(1, 200):
        app.manager.turn()
        got = [x for message in app.hear() if type(message) is m.Deliver for x in items(message)]
        found += [delivery.body for delivery in got]
        if got and turn % 3:
            app.ack(*got)
        if len(found) == count:
            break
        app.send(m.Credit(request_id, credits_[turn % len(credits_)], 0))
    return found


def test_group_has_one_place_in_the_line() -> None:
    line = GroupHeap()
    line.add(b"A", b"5")
    line.add(b"B", b"4")
    assert line.first() == (b"4", b"B")
    line.add(b"B", b"6")
    assert line.first() == (b"5", b"A")
    line.add(b"B", b"3")
    line.add(b"B", b"3")
    assert line.first() == (b"3", b"B")
    line.remove(b"B")
    line.remove(b"B")
    assert line.first() == (b"5", b"A")
    line.remove(b"A")
    assert line.first() is None


def test_earlier_places_of_groups_are_forgotten() -> None:
    line = GroupHeap()
    line.add(b"first", b"0")
    for number in range(10_000):
        line.add(b"A", b"%05d" % (number + 1))
    assert len(line._heap) < 100
    assert line.first() == (b"0", b"first")
    line.remove(b"first")
    assert line.first() == (b"10000", b"A")
