"""The sum of the bytes on the queues of one user."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.queue.stored_bytes import StoredBytes

LIMIT = 1_000


def queue(number: int) -> Any:
    """Returns an object that has the bytes of a queue."""
    return SimpleNamespace(id=number, used_bytes=0)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 400), st.sampled_from(["put", "ack", "end"]))
    )
)
def test_puts_never_exceed_the_limit_on_all_queues_together(
    steps: list[tuple[int, int, str]],
) -> None:
    stored, queues = StoredBytes("bob"), [queue(number) for number in range(3)]
    stored.limit_bytes = LIMIT
    for number, size, step in steps:
        found = queues[number]
        used = sum(x.used_bytes for x in queues)
        if step == "put":
            fits = found.used_bytes + size <= stored.limit_of(found)
            assert not fits or used + size <= LIMIT
            found.used_bytes += size if fits else 0
        elif step == "ack":
            found.used_bytes -= min(size, found.used_bytes)
        else:
            for each in queues:
                stored.count(each)
            assert stored.bytes == used
            assert stored.limit_of(found) == LIMIT - used + found.used_bytes


def test_deleted_queue_does_not_count() -> None:
    stored, first, second = StoredBytes("bob"), queue(1), queue(2)
    stored.limit_bytes = LIMIT
    first.used_bytes, second.used_bytes = 300, 200
    stored.count(first)
    stored.count(second)
    assert stored.bytes == 500
    assert stored.limit_of(second) == 700
    stored.forget(second)
    assert (stored.bytes, stored.limit_of(first)) == (300, 1_000)
