"""Tests that the keys of the store sort in the order in which the daemon reads them."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.layout import keys

queue_ids = st.integers(1, 2**32 - 2)
arrivals = st.integers(0, 2**63 - 1)
priorities = st.integers(0, 9)
places = st.tuples(queue_ids, st.sampled_from([0, 15]), priorities, arrivals)


@given(places, places)
def test_bytes_order_is_queue_lane_priority_down_arrival(
    a: tuple[int, int, int, int], b: tuple[int, int, int, int]
) -> None:
    rank_a = (a[0], a[1], -a[2], a[3])
    rank_b = (b[0], b[1], -b[2], b[3])
    assert (keys.message(*a) < keys.message(*b)) == (rank_a < rank_b)


@given(places)
def test_place_reads_what_message_wrote(place: tuple[int, int, int, int]) -> None:
    assert keys.place(keys.message(*place)) == place[2:]


@given(places)
def test_lane_and_queue_are_prefixes_of_a_message(place: tuple[int, int, int, int]) -> None:
    key = keys.message(*place)
    assert key.startswith(keys.lane(*place[:2]))
    assert key.startswith(keys.of_queue(keys.SPACE_MESSAGE, place[0]))


@given(queue_ids, places)
def test_after_ends_a_prefix(queue_id: int, place: tuple[int, int, int, int]) -> None:
    prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
    key = keys.message(*place)
    assert (prefix <= key < keys.after(prefix)) == (place[0] == queue_id)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 2))
def test_pieces_of_a_body_lie_in_order(body_id: int, chunk: int) -> None:
    assert keys.body(body_id, chunk) < keys.body(body_id, chunk + 1)


def test_bytes_of_a_key_are_those_of_the_drawing() -> None:
    assert keys.message(0x01020304, 15, 7, 5).hex(" ") == "10 01 02 03 04 0f 02 " + "00 " * 7 + "05"
    assert keys.entry_prefix(0x01020304, 7).hex(" ") == "10 01 02 03 04 00 02"
    assert keys.lane(0x01020304, 15).hex(" ") == "10 01 02 03 04 0f"
    assert keys.of_queue(keys.SPACE_UID, 0x01020304).hex(" ") == "11 01 02 03 04"
    assert keys.body(258, 3).hex(" ") == "30 00 00 00 00 00 00 01 02 00 00 00 03"
    assert keys.job(258).hex(" ") == "40 00 00 00 00 00 00 01 02"


def test_first_key_after_a_prefix_has_the_same_length_and_is_one_higher() -> None:
    assert keys.after(b"\x10\0\0\0\1") == b"\x10\0\0\0\2"
    assert keys.after(b"\x10\xff") == b"\x11\0"


def test_spaces_are_distinct_and_in_the_drawing() -> None:
    spaces = [value for name, value in vars(keys).items() if name.startswith("SPACE_")]
    assert len(set(spaces)) == len(spaces)
    drawn = re.findall(r"^    ([0-9a-f]{2})     ", Path(keys.__file__).read_text(), re.MULTILINE)
    assert {value.hex() for value in spaces} <= set(drawn)


def test_longest_key_fits_lmdb() -> None:
    """The longest key has 511 bytes. Its origin and its name have 64 bytes each."""
    assert len(keys.of_queue(keys.SPACE_UID, 1)) + 64 + 8 <= 511
    assert len(keys.SPACE_QUEUE) + 129 <= 511


@given(places)
def test_named_places_in_the_key_of_an_entry_are_those_that_it_was_made_of(
    place: tuple[int, int, int, int],
) -> None:
    queue_id, lane, priority, arrival = place
    key = keys.message(*place)
    position = key[keys.POSITION_AT :]
    rank = bytes([9 - priority])
    assert key == key[keys.SPACE] + key[keys.REST] == key[keys.OF_QUEUE] + position
    assert int.from_bytes(key[keys.QUEUE_ID], "big") == queue_id
    assert (key[keys.OF_RANK], key[keys.RANK]) == (key[:-8], rank)
    assert position[keys.LANE] == bytes([position[keys.LANE_AT]]) == bytes([lane])
    assert position[keys.IN_LANE] == keys.PLACE.pack(9 - priority, arrival)
    assert position[keys.IN_LANE][keys.PLACE_RANK_AT] == 9 - priority
    assert keys.arrival_of(position) == arrival


@given(places)
def test_named_places_in_other_keys_are_those_that_they_were_made_of(
    place: tuple[int, int, int, int],
) -> None:
    queue_id, lane, _, arrival = place
    due = keys.due(77, *place)
    assert int.from_bytes(due[keys.DUE_MS], "big") == 77
    assert int.from_bytes(due[keys.DUE_QUEUE_ID], "big") == queue_id
    assert due[keys.DUE_LANE_AT] == lane
    assert due[keys.AFTER_DUE] == keys.message(*place)[keys.REST]
    member = keys.group(queue_id, b"g" * 24, 5)
    assert (member[keys.GROUP_ID], keys.number_of(member)) == (b"g" * 24, 5)
    assert member == member[keys.BEFORE_NUMBER] + member[keys.GROUP_NUMBER]
    assert keys.body(arrival, 3)[keys.BODY_ID] == arrival.to_bytes(8, "big")
    assert keys.note(queue_id, arrival)[keys.NOTE_ARRIVAL] == arrival.to_bytes(8, "big")
