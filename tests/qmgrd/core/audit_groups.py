"""Checks the stored rows and the memory of a queue's groups against its messages."""

from collections import Counter
from itertools import pairwise

from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout import row as sealed
from qmgrd.core.queue.group import index as group_index
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.row import GroupRow
from qmgrd.core.queue.queue import Queue

Rows = dict[bytes, bytes]


def audit_groups(rows: Rows, queue: Queue) -> None:
    """Checks the groups of a queue between two turns."""
    members = _members(rows, queue)
    assert members == indexed(rows, queue.id), "the index differs from the members"
    known = _known(rows, queue)
    chained, listed = (_turns(rows, queue, x) for x in (keys.SPACE_CHAIN, keys.SPACE_COMPLETE))
    for group_id in {member.group_id for member in members} | set(known):
        assert group_id in known, "a group without a row"
        _audit_row(queue, group_id, known[group_id], members)
    turns = {row.place: group_id for group_id, row in known.items() if row.place}
    assert turns == chained, "the chain differs from the rows"
    complete = {row.place: group_id for group_id, row in known.items() if row.is_listed}
    assert complete == listed, "the complete groups differ from the rows"
    _audit_holds(queue, members)
    _audit_positions(rows, queue, known)
    assert queue.counters.grouped == sum(at[0] == keys.LANE_GROUPED for at in members.values())


def _members(rows: Rows, queue: Queue) -> dict[Member, bytes]:
    """Returns the members on the queue, and their keys.

    A delayed message that is in no index of groups does not belong to a group.
    """
    found: dict[Member, bytes] = {}
    by_index = indexed(rows, queue.id)
    for lane in (keys.LANE_GROUPED, keys.LANE_DELAYED):
        prefix = keys.lane(queue.id, lane)
        for key, value in rows.items():
            if not key.startswith(prefix):
                continue
            group = index.selected_by(_front(rows, value))[1]
            if group is None or queue.is_transmission:
                assert lane != keys.LANE_GROUPED, "not a member, but in the index"
            elif lane == keys.LANE_GROUPED or by_index.get(Member(*group)) == key[5:]:
                assert Member(*group) not in found, "two members with one number"
                found[Member(*group)] = key[5:]
    return found


def indexed(rows: Rows, queue_id: int) -> dict[Member, bytes]:
    """Returns the members listed in the index, and their keys."""
    found: dict[Member, bytes] = {}
    prefix = keys.of_queue(keys.SPACE_GROUP, queue_id)
    for key, value in rows.items():
        if key.startswith(prefix):
            assert group_index.is_sound(key, value), (key, value)
            run = group_index.decode(key, value)
            for number in range(run.first, run.last + 1):
                member = Member(key[keys.GROUP_ID_AT : -4], number)
                assert member not in found, "in two runs"
                found[member] = run.at(number)
    return found


def _front(rows: Rows, value: bytes) -> bytes:
    entry = entries.decode(value)
    if entry.shared:
        position = rows[keys.publication_uid(entries.uid_trailer(entry))]
        return _front(rows, rows[keys.publication_at(position)])
    if not entry.in_rows:
        return entry.rest
    return rows[keys.body(int.from_bytes(entry.rest[:8], "big"), 0)]


def _known(rows: Rows, queue: Queue) -> dict[bytes, GroupRow]:
    prefix = keys.of_queue(keys.SPACE_GROUP_ROW, queue.id)
    return {
        key[len(prefix) :]: GroupRow.decode(sealed.unseal(key, value))
        for key, value in rows.items()
        if key.startswith(prefix)
    }


def _turns(rows: Rows, queue: Queue, space: bytes) -> dict[bytes, bytes]:
    prefix = keys.of_queue(space, queue.id)
    return {key[len(prefix) :]: x for key, x in rows.items() if key.startswith(prefix)}


def _audit_row(queue: Queue, group_id: bytes, row: GroupRow, members: dict[Member, bytes]) -> None:
    mine = {x.number: at for x, at in members.items() if x.group_id == group_id}
    there = Counter(at[0] for at in mine.values())
    assert row.count == there[keys.LANE_GROUPED]
    assert row.waiting == there[keys.LANE_DELAYED]
    assert not any(row.has_left(number) for number in mine), "a number that left for good is stored"
    assert row.highest >= max(mine, default=0)
    assert not row.last or row.last >= max(mine, default=0), "a number after the last one"
    runs = [[row.done + 1, 0], *row.ahead]
    for (first, count), (further, more) in pairwise(runs):
        assert more > 0
        assert further > first + count or (count == 0 and further > first), "adjacent runs"
    due = mine.get(row.due, b"\xff")
    has_turn = due[0] == keys.LANE_GROUPED and not row.is_stopped
    assert bool(row.place) == has_turn, f"number {row.due} of {group_id!r}: {row.place!r}"
    assert row.is_listed == (has_turn and row.is_rest_ready), (
        f"{group_id!r} is listed in a wrong state"
    )
    cached = queue.groups._rows.get(group_id)
    assert cached is None or cached == row, "the cache differs from the store"


def _audit_holds(queue: Queue, members: dict[Member, bytes]) -> None:
    held_groups = queue.groups.held_groups
    arrivals = set()
    for group_id, hold in held_groups.by_group.items():
        reader = hold.reader
        if reader is not None:
            assert group_id in reader.held_groups
            assert reader in held_groups._readers, "held by a reader that no longer exists"
        is_next = reader is not None and (reader.current == group_id or group_id in reader.line)
        assert is_next or not hold.is_settled, f"{group_id!r} is held without a reason"
        assert not set(hold.out) & set(hold.going)
        for number, arrival in (hold.out | hold.going).items():
            assert held_groups.leased[arrival] == Member(group_id, number)
            arrivals.add(arrival)
    for reader in held_groups._readers:
        assert set(reader.calling) <= set(reader.held_groups)
        assert reader.current is None or reader.current in reader.held_groups
        for group_id in reader.held_groups:
            assert held_groups.by_group[group_id].reader is reader
        assert set(reader.line) <= set(reader.held_groups)
        assert not (reader.line and held_groups._is_stalled(reader)), (
            "left to a reader that requests nothing"
        )
    strays = Counter(
        group_id for at, (group_id, _) in held_groups.leased.items() if at not in arrivals
    )
    assert dict(strays) == held_groups.leased_singly
    leased = {int.from_bytes(at[2:], "big") for at in members.values()} & set(queue.leases)
    assert set(held_groups.leased) == leased, "the leased members differ from the leases"


def _audit_positions(rows: Rows, queue: Queue, known: dict[bytes, GroupRow]) -> None:
    """Checks that the position for free groups is not after a group that a reader could begin."""
    groups, by_index = queue.groups, indexed(rows, queue.id)
    for group_id, row in known.items():
        if (
            not row.place
            or group_id in groups.held_groups.by_group
            or group_id in groups.held_groups.leased_singly
        ):
            continue
        rank, arrival = keys.PLACE.unpack(row.place)
        position = by_index[Member(group_id, row.due)]
        due = entries.decode(rows[keys.of_queue(keys.SPACE_MESSAGE, queue.id) + position])
        # Held groups are skipped, and so are groups that may have ended but are not removed yet.
        if (
            due.expires_ms
            or queue.is_lost(due, arrival)
            or groups.held_groups.is_assigned(group_id)
        ):
            continue
        head = groups.heads[keys.PRIORITY_TOP - rank]
        assert arrival >= head or group_id in groups._touched or row.changed_ms == 0, (
            f"group {group_id!r} at {arrival} is before {head}, and no reader holds it"
        )
        if row.is_rest_ready and not groups.sweeps:
            assert arrival >= groups.rest_heads[keys.PRIORITY_TOP - rank]
        if row.is_whole and not groups.sweeps:
            assert arrival >= groups.whole_heads[keys.PRIORITY_TOP - rank]
