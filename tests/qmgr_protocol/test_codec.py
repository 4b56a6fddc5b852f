"""Tests that the decoder accepts valid values, and refuses every known kind of hostile value."""

import struct
import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import codec
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import FrameMalformed
from tests.qmgr_protocol.strategies import VALUES

MIB = 1024 * 1024


def array32(count: int, elements: bytes = b"") -> bytes:
    return b"\xdd" + struct.pack(">I", count) + elements


def nested(element: bytes, size_bytes: int = 8 * MIB) -> bytes:
    """Returns an array of arrays of 20,000 times *element*, with *size_bytes* in total."""
    inner = array32(20_000, element * 20_000)
    count = size_bytes // len(inner)
    return array32(count, inner * count)


REFUSED = {
    "array32 that claims 4 G items in 5 bytes": array32(2**32 - 1),
    "array16 that claims missing elements": b"\xdc\xff\xff",
    "map32 that claims 4 G items": b"\xdf\xff\xff\xff\xff",
    "str32 that claims 4 GB": b"\xdb\xff\xff\xff\xff",
    "bin32 that claims 4 GB": b"\xc6\xff\xff\xff\xff",
    "ext32 that claims 4 GB": b"\xc9\xff\xff\xff\xff\x01",
    "1 MB of empty arrays": array32(10**6, b"\x90" * 10**6),
    "1 MB of nils": array32(10**6, b"\xc0" * 10**6),
    "an array of 20,001": array32(20_001, b"\xc0" * 20_001),
    "a map of 20,001": b"\xdf"
    + struct.pack(">I", 20_001)
    + b"".join(pack(str(i)) + b"\xc0" for i in range(20_001)),
    "nesting of 2,000": b"\x91" * 2_000 + b"\xc0",
    "nesting of 1,000,000": b"\x91" * 10**6 + b"\xc0",
    "nesting of maps": b"\x81\xa1a" * 10**5 + b"\xc0",
    "500 nested claims of 900,000": array32(900_000) * 500 + b"\xc0" * 900_000,
    "500 nested claims of 20,000": array32(20_000) * 500 + b"\xc0" * 900_000,
    "1,000 nested claims of 20,000 in 3 KB": (b"\xdc" + struct.pack(">H", 20_000)) * 1_000,
    "300 nested claims in 500 bytes": (b"\xdc" + struct.pack(">H", 500)) * 166,
    "1,000 nested maps that claim 20,000": (b"\xde" + struct.pack(">H", 20_000) + b"\xa1a") * 1_000,
    "8 MB of empty arrays in arrays": nested(b"\x90"),
    "8 MB of empty maps in arrays": nested(b"\x80"),
    "8 MB of nils in arrays": nested(b"\xc0"),
    "8 MB of numbers in arrays": nested(b"\xcd\x12\x34"),
    "8 MB of texts in arrays": nested(b"\xa2ab"),
    "text that is not UTF-8": b"\xa1\xff",
    "a surrogate": b"\xa3\xed\xa0\x80",
    "an extension": b"\xd4\x05a",
    "an empty extension": b"\xc7\x00\x05",
    "a timestamp of 32 bits": b"\xd6\xff\x00\x00\x00\x01",
    "a timestamp of 64 bits": b"\xd7\xff" + b"\x00" * 8,
    "a timestamp of 96 bits": b"\xc7\x0c\xff" + b"\x00" * 12,
    "a map with a list as a key": b"\x81\x90\x01",
    "a map with a number as a key": b"\x81\x01\x01",
    "a map with nil as a key": b"\x81\xc0\x01",
    "a map with true as a key": b"\x81\xc3\x01",
    "a map with a float as a key": b"\x81\xcb" + b"\x00" * 8 + b"\x01",
    "a map with a repeated key": b"\x82\xa1a\x01\xa1a\x02",
    "trailing bytes": b"\x90\x90",
    "trailing bytes after a long value": pack([b"x" * 600]) + b"\x00",
    "0xc1": b"\xc1",
    "0xc1 in a long value": b"\x92\xc1" + pack(b"x" * 600),
    "nothing": b"",
    "a value cut short": b"\x92\x01",
    "a long value cut short": pack([b"x" * 600])[:-1],
}


@pytest.mark.slow
@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_hostile_value_is_refused_quickly_and_without_memory(data: bytes) -> None:
    with pytest.raises(FrameMalformed):
        unpack(data)
    assert least_time(data) < 0.25  # Without limits, 8 MB of empty arrays need over 2 s.
    tracemalloc.start()
    try:
        with pytest.raises(FrameMalformed):
            unpack(data)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A copy of the value, BUILT_MAX_BYTES, and 50 bytes of overhead for each short string
    assert peak_bytes < len(data) + 7 * codec.BUILT_MAX_BYTES


def least_time(data: bytes) -> float:
    """Returns the processor time, in seconds, of the fastest of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        with suppress(FrameMalformed):
            unpack(data)
        times.append(time.process_time() - start)
    return min(times)


def test_nested_claims_cost_no_more_than_their_bytes() -> None:
    """The decoder walks a value before it reserves memory.

    Without the walk, these 3 KB reserved 160 MB and needed 60 ms.
    """
    assert least_time(REFUSED["1,000 nested claims of 20,000 in 3 KB"]) < 0.03


def test_nested_claims_in_a_small_value_cost_little() -> None:
    """The decoder does not walk small values, because their size limits the claims."""
    assert least_time(REFUSED["300 nested claims in 500 bytes"]) < 0.03


GOOD: dict[str, Any] = {
    "an array of 20,000": [None] * 20_000,
    "20,000 rows of three, twice": [[[1, 2, 3]] * 20_000] * 2,
    "10,000 rows of a queue": [{f"counter_{i}": i for i in range(22)} for _ in range(10_000)],
    "a long binary": b"x" * (4 * MIB),
    "lists 500 deep": None,
    "NaN is a number": [0.5, float("inf")],
    "a map with binary keys": {b"a": 1},
}
for _ in range(500):
    GOOD["lists 500 deep"] = [GOOD["lists 500 deep"]]


@pytest.mark.parametrize("value", GOOD.values(), ids=GOOD)
def test_value_within_the_limits_is_read(value: Any) -> None:
    assert unpack(pack(value)) == value


def test_claim_of_a_small_value_is_held_to_its_size() -> None:
    with pytest.raises(FrameMalformed, match="max_array_len"):
        unpack(b"\xdc\x01\x00")


def test_refusal_says_why() -> None:
    with pytest.raises(FrameMalformed, match="StackError"):
        unpack(b"\x91" * 2_000)


def test_packer_is_as_new_after_a_value_that_it_cannot_pack() -> None:
    for value in (object(), [1, 2**64], "\ud800", [[1], {"a": {1, 2}}]):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            pack(value)
        assert pack([1]) == b"\x91\x01"


@given(VALUES)
def test_packed_value_is_unpacked(value: Any) -> None:
    if "nan" not in repr(value):
        assert unpack(pack(value)) == value


@given(st.binary(max_size=2_000))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(FrameMalformed):
        unpack(data)


@given(st.dictionaries(st.sampled_from(["to", "into", "t", ""]) | st.binary(max_size=3), VALUES))
def test_text_under_a_key_is_that_of_the_decoded_map(value: dict[Any, Any]) -> None:
    found = value.get("to")
    assert codec.text_under(pack(value), "to") == (found if type(found) is str else None)


@pytest.mark.parametrize("key", [b"\xa2to", b"\xd9\x02to", b"\xda\0\x02to", b"\xdb\0\0\0\x02to"])
def test_text_under_a_key_is_found_whatever_the_encoding(key: bytes) -> None:
    assert codec.text_under(b"\x82\xa4into\xa1x" + key + b"\xd9\x01y", "to") == "y"


@pytest.mark.parametrize(
    "data", [b"", b"\x91\x01", b"\x81\xa2to", b"\x81\xa2to\xa1\xff", b"\xde\x4e\x21", b"\x81\xc1\0"]
)
def test_text_under_a_key_of_no_map_is_refused(data: bytes) -> None:
    with pytest.raises(FrameMalformed):
        codec.text_under(data, "to")


def test_text_under_a_key_is_found_without_building_the_rest() -> None:
    data = pack({"headers": [[0] * codec.LENGTH_MAX] * 30, "to": "y"})
    tracemalloc.start()
    assert codec.text_under(data, "to") == "y"
    assert tracemalloc.get_traced_memory()[1] < 2 * len(data)  # The arrays would need 4.8 MB.
    tracemalloc.stop()


@given(VALUES, st.data())
def test_mutated_value_is_read_or_refused(value: Any, data: st.DataObject) -> None:
    packed = bytearray(pack([value, b"x" * data.draw(st.sampled_from([0, 600]))]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with suppress(FrameMalformed):
        unpack(bytes(packed))


@given(st.binary(max_size=codec.SMALL_BYTES - 10) | VALUES.map(pack))
def test_the_two_ways_agree(data: bytes) -> None:
    """The decoder reads small values without a walk, but with the same results."""

    def outcome(packed: bytes) -> Any:
        try:
            return repr(unpack(packed))
        except FrameMalformed:
            return FrameMalformed

    long = b"\x92" + data + pack(b"x" * codec.SMALL_BYTES)
    small = outcome(b"\x91" + data)
    if small is FrameMalformed:
        assert outcome(long) is FrameMalformed
    else:
        assert outcome(long) == repr([*unpack(b"\x91" + data), b"x" * codec.SMALL_BYTES])


LONG = b"x" * codec.FLAT_BYTES
REQUESTS_REFUSED = {
    "2 MB of numbers in arrays": nested(b"\xcd\x12\x34", 2 * MIB),
    "76 KB of empty arrays": array32(4, array32(19_000, b"\x90" * 19_000) * 4),
    "3 KB of empty arrays": array32(3_000, b"\x90" * 3_000),
    "2 MB of maps": array32(38, pack({str(i): 1 for i in range(9_000)}) * 38),
    "8 MB of texts in nested arrays": array32(19_001, b"\xa2\xc3\xa9" * 19_000) * 140 + b"\x90",
    "8 MB of numbers": array32(8 * MIB, b"\x01" * (8 * MIB)),
    "a long frame with a map": pack([1, {"a": 1}, LONG]),
    "a long frame with an array in an array": pack([1, [[1]], LONG]),
    "a long frame with an extension": b"\x92\xd4\x05a" + pack(LONG),
    "a long frame with bytes after it": pack([1, LONG]) + b"\x00",
    "a long frame that is cut": pack([1, [2, 3], LONG])[:-1],
    "a long frame without its last element": b"\x93" + pack(1) + pack(LONG),
    "a long array without its last element": b"\x92\x01\x92" + pack(LONG),
    "a long frame with 20,001 elements in an array": pack([[None] * 20_001, LONG]),
    "a long frame with 22,000 elements": pack([[None] * 11_000] * 2 + [LONG]),
    "a long text that is not UTF-8": b"\x92\xa1\xff" + pack(LONG),
    "a long text instead of an array": pack("x" * (codec.FLAT_BYTES + 1)),
}


@pytest.mark.parametrize("data", REQUESTS_REFUSED.values(), ids=REQUESTS_REFUSED)
def test_costly_frame_of_a_client_is_refused_quickly(data: bytes) -> None:
    def refuse() -> float:
        start = time.process_time()
        with pytest.raises(FrameMalformed):
            unpack(data, is_request=True)
        return time.process_time() - start

    assert min(refuse() for _ in range(3)) < 0.03  # Without limits, up to 0.24 s on an idle core.


REQUESTS = {
    "20,000 records": [21, 1, 1, 0, "A", [b"\0" * 40] * 20_000, []],
    "records of 64 KB": [21, 1, 1, 0, "A", [LONG] * 20],
    "20,000 names": [9, 1, ["ab"] * 20_000],
    "plain values": [1, None, True, 0.5, -1, "\u20ac", LONG],
    "attributes": [3, 1, "A", {"depth_max": 1, "roles": ["a"] * 1_000}],
    "a short request": [4, 7],
}


@pytest.mark.parametrize("value", REQUESTS.values(), ids=REQUESTS)
def test_frame_of_a_client_is_read(value: Any) -> None:
    assert unpack(pack(value), is_request=True) == value


@given(VALUES, st.data())
def test_mutated_long_frame_of_a_client_is_read_or_refused(value: Any, data: st.DataObject) -> None:
    packed = bytearray(pack([value, [value, 1]]))
    for _ in range(data.draw(st.integers(0, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    long = b"\x92" + bytes(packed) + pack(LONG)
    try:
        found = unpack(long, is_request=True)
    except FrameMalformed:
        return
    assert repr(found) == repr(unpack(long))
