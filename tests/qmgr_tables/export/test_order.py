"""Tests that rows are in order, and that row groups end at the same rows after a restart."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from qmgr_tables.export.order import ROW_BYTES, in_order, row_bytes, row_groups, whole_positions

SCHEMA = pa.schema([("arrival", pa.int64()), ("body", pa.binary())])


def batch(*arrivals: int) -> pa.RecordBatch:
    bodies = [b"x" * (arrival % 7) for arrival in arrivals]
    return pa.RecordBatch.from_pydict({"arrival": arrivals, "body": bodies}, SCHEMA)


def table(*sizes: int) -> pa.Table:
    rows = {"arrival": range(len(sizes)), "body": [b"x" * size for size in sizes]}
    return pa.Table.from_pydict(rows, SCHEMA)


@st.composite
def parts(draw: st.DrawFn) -> list[list[list[int]]]:
    """Draws unique arrivals, spread over some parts in batches. Some batches are empty."""
    count = draw(st.integers(1, 4))
    found: list[list[list[int]]] = [[[]] for _ in range(count)]
    for arrival in range(draw(st.integers(0, 30))):
        part = found[draw(st.integers(0, count - 1))]
        if draw(st.booleans()):
            part.append([])
        part[-1].append(arrival)
    return found


@given(parts())
def test_parts_become_one_run(found: list[list[list[int]]]) -> None:
    tables = in_order([iter([batch(*one) for one in part]) for part in found], "arrival", SCHEMA)
    merged = [row["arrival"] for one in tables for row in one.to_pylist()]
    assert merged == sorted(arrival for part in found for one in part for arrival in one)


def test_one_batch_of_each_part_is_held() -> None:
    told = []

    def part(number: int) -> Iterator[pa.RecordBatch]:
        for at in range(0, 100, 10):
            told.append(at)
            yield batch(*range(at + number, at + 10, 2))

    tables = in_order([part(0), part(1)], "arrival", SCHEMA)
    next(tables)
    assert max(told) <= 10


@given(st.lists(st.integers(0, 500)), st.lists(st.integers(1, 5), min_size=1), st.data())
def test_row_groups_end_where_they_did_before(
    sizes: list[int], pieces: list[int], data: st.DataObject
) -> None:
    whole = table(*sizes)

    def cut(first: int) -> Iterator[pa.Table]:
        at, turn = first, 0
        while at < whole.num_rows:
            yield whole.slice(at, pieces[turn % len(pieces)])
            at, turn = at + pieces[turn % len(pieces)], turn + 1

    groups = list(row_groups(cut(0), 1_000, 3))
    assert pa.concat_tables([whole.slice(0, 0), *groups]).equals(whole)
    lengths = [group.num_rows for group in groups]
    begun = data.draw(st.integers(0, len(groups)))
    again = row_groups(cut(sum(lengths[:begun])), 1_000, 3)
    assert [group.num_rows for group in again] == lengths[begun:]
    assert all(row_bytes(group)[:-1].sum() < 1_000 for group in groups)


def test_what_a_row_takes_is_its_body_and_a_little() -> None:
    rows = table(0, 5)
    assert list(row_bytes(rows)) == [ROW_BYTES, ROW_BYTES + 5]
    without = rows.set_column(1, "body", pa.array([None, None], pa.binary()))
    assert np.array_equal(row_bytes(without), [ROW_BYTES, ROW_BYTES])


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 5), min_size=1))
def test_a_position_is_never_divided(steps: list[int], pieces: list[int]) -> None:
    arrivals = np.cumsum([step // 3 for step in steps]).tolist() if steps else []
    whole = pa.Table.from_batches([batch(*arrivals)])

    def cut() -> Iterator[pa.Table]:
        at = turn = 0
        while at < whole.num_rows:
            length = pieces[turn % len(pieces)] or (turn % 2)
            yield whole.slice(at, length)
            at, turn = at + length, turn + 1

    found = [one.column("arrival").to_pylist() for one in whole_positions(cut(), "arrival")]
    assert [arrival for one in found for arrival in one] == arrivals
    assert all(found)
    assert all(one[-1] < other[0] for one, other in pairwise(found))
