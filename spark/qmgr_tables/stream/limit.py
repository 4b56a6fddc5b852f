"""The limit for the size of one batch of a stream."""

from collections.abc import Callable, Iterator

from qmgr_tables.stream.source import Offsets

# A function that yields the number, the rows and the bytes of each row of a store or queue in a
# range of numbers.
Sizes = Callable[[str, int, int], Iterator[tuple[int, int, int]]]
_NO_LIMIT = 2**63 - 1


def admitted(
    start: Offsets, ends: Offsets, sizes: Sizes, rows_max: int | None, bytes_max: int | None
) -> Offsets:
    """Returns the end of a batch that begins after *start*.

    Stores or queues get equal shares of the limit. The unused part of a share is added to the next
    share. Shares that were too small for a row are used at the end. If the limit is below the
    number of queues, the queues take turns. The total progress determines the order of the turns. A
    row of history is not divided. If data is available, the batch has at least one row of any
    length.
    """
    if rows_max is None and bytes_max is None:
        return ends
    turns = sorted(name for name in ends if start.get(name, ends[name]) < ends[name])
    found = ends | {name: start[name] for name in turns}
    first = sum(found.values()) % max(len(turns), 1)
    turns = [*turns[first:], *turns[:first]]
    # The longest backlog gets the rest.
    waiting = sorted(turns[:rows_max], key=lambda name: ends[name] - start[name])
    rows_left = _NO_LIMIT if rows_max is None else rows_max
    bytes_left = _NO_LIMIT if bytes_max is None else bytes_max
    is_one_due = True
    for place, name in enumerate([*waiting, *turns]):
        left, is_again = len(waiting) - place, place >= len(waiting)
        share = 1 if is_again else left
        if left == 1:  # The rest is shared among the names that got nothing.
            share += sum(found[other] == start[other] for other in waiting[:place])
        rows_most, bytes_most = rows_left // share, bytes_left // share
        is_due = is_one_due and (is_again or share == 1)
        if found[name] > start[name] or not ((rows_most and bytes_most) or is_due):
            continue  # No request is needed for this name.
        found[name], rows, size = _taken(
            sizes(name, start[name], ends[name]),
            start[name],
            rows_most,
            bytes_most,
            is_one_due=is_due,
        )
        rows_left, bytes_left = max(rows_left - rows, 0), max(bytes_left - size, 0)
        is_one_due = is_one_due and not size
    return found


def _taken(
    sizes: Iterator[tuple[int, int, int]],
    after: int,
    rows_max: int,
    bytes_max: int,
    *,
    is_one_due: bool,
) -> tuple[int, int, int]:
    """Returns the last row within both limits, and the totals up to that row."""
    position, rows, size = after, 0, 0
    for seq, events, length in sizes:
        is_over = rows + events > rows_max or size + length > bytes_max
        if is_over and not (is_one_due and position == after):
            break
        position, rows, size = seq, rows + events, size + length
    return position, rows, size
