import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.frame import FRAME_MAX_BYTES_BEFORE_HELLO, FrameDecoder, encode
from tests.qmgr_protocol.strategies import VALUES, chunked

ARRAYS = (
    st.lists(VALUES, max_size=3).map(lambda rest: [7, *rest]).filter(lambda a: "nan" not in repr(a))
)
STREAMS = st.lists(ARRAYS, max_size=5).map(lambda arrays: b"".join(map(encode, arrays)))


def cut(decoder: FrameDecoder, chunks: list[bytes]) -> list[Any]:
    found: list[Any] = []
    for chunk in chunks:
        decoder.feed(chunk)
        found += decoder.drain()
    return found


def length(size_bytes: int) -> bytes:
    return struct.pack(">I", size_bytes)


def test_frame_is_a_length_and_an_array() -> None:
    assert encode([4, 7]) == b"\x00\x00\x00\x03\x92\x04\x07"


def test_frame_comes_back_with_its_size() -> None:
    assert cut(FrameDecoder(), [encode([4, 7]) + encode([5])]) == [([4, 7], 7), ([5], 6)]


def test_next_hands_out_one_at_a_time() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode([4, 7]) + encode([5]))
    assert [decoder.next(), decoder.next(), decoder.next()] == [([4, 7], 7), ([5], 6), None]


def test_limited_drain_reports_that_bytes_follow() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode([4, 7]) * 4)
    found = []
    for count, has_more in ((2, True), (1, True), (2, False), (2, False)):
        found.append(len(decoder.drain(count)))
        assert decoder.has_more is has_more
    assert found == [2, 1, 1, 0]


def test_limited_drain_finds_a_bad_frame_in_the_rest() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode([4, 7]) + length(2**31))
    assert (len(decoder.drain(1)), decoder.error, decoder.has_more) == (1, None, True)
    assert (decoder.drain(1), decoder.has_more) == ([], False)
    assert decoder.error is not None


def test_limit_may_move_between_frames() -> None:
    """The limit of a hello is separate, and differs from the limit of later frames."""
    decoder = FrameDecoder(limit_bytes=3)
    decoder.feed(encode([4, 7]) + encode([5, "longer"]))
    assert decoder.next() == ([4, 7], 7)
    decoder.limit_bytes = 100
    assert decoder.next() == ([5, "longer"], 13)


@pytest.mark.parametrize("size_bytes", [101, 2**31, 2**32 - 1])
def test_frame_beyond_the_limit_is_refused_by_its_first_four_bytes(size_bytes: int) -> None:
    decoder = FrameDecoder(limit_bytes=100)
    decoder.feed(length(size_bytes)[:3])
    assert decoder.drain() == []
    assert decoder.error is None
    decoder.feed(length(size_bytes)[3:])
    assert decoder.drain() == []
    assert decoder.error is not None
    assert decoder.error.code == ErrorCode.FRAME_TOO_LARGE
    assert str(decoder.error) == f"frame of {size_bytes} bytes exceeds the limit of 100 bytes"


def test_frame_of_exactly_the_limit_passes() -> None:
    data = encode([4, b"x" * 95])
    decoder = FrameDecoder(limit_bytes=len(data) - 4)
    assert cut(decoder, [data]) == [([4, b"x" * 95], len(data))]


def test_first_frame_of_a_stranger_is_short() -> None:
    assert FrameDecoder().limit_bytes == FRAME_MAX_BYTES_BEFORE_HELLO == 4_096


@pytest.mark.parametrize(
    "body",
    [b"", b"\x90", b"\xc0", b"\x80", b"\x91\xa1a", b"\x91\xc3", b"\x91\xcb" + b"\0" * 8, b"\xc1"],
)
def test_frame_that_is_no_message_is_malformed(body: bytes) -> None:
    decoder = FrameDecoder()
    assert cut(decoder, [length(len(body)) + body]) == []
    assert decoder.error is not None
    assert decoder.error.code == ErrorCode.FRAME_MALFORMED


def test_messages_before_a_bad_frame_are_returned() -> None:
    decoder = FrameDecoder()
    assert cut(decoder, [encode([4]) + length(1) + b"\xc1" + encode([5])]) == [([4], 6)]
    assert decoder.error is not None


def test_decoder_is_spent_after_an_error() -> None:
    decoder = FrameDecoder()
    assert cut(decoder, [length(1) + b"\xc1"]) == []
    error = decoder.error
    assert cut(decoder, [encode([4]), b"x" * 10_000]) == []
    assert decoder.next() is None
    assert decoder.error is error
    assert decoder.buffered_bytes == 0


@given(chunked(STREAMS))
def test_chunks_do_not_matter(case: tuple[bytes, list[bytes]]) -> None:
    data, chunks = case
    whole, pieces = FrameDecoder(), FrameDecoder()
    assert cut(whole, [data]) == cut(pieces, chunks)
    assert whole.buffered_bytes == pieces.buffered_bytes == 0


@given(chunked(st.binary(max_size=300) | st.builds(bytes.__add__, STREAMS, st.binary(max_size=40))))
def test_chunks_of_garbage_do_not_matter(case: tuple[bytes, list[bytes]]) -> None:
    data, chunks = case
    whole, pieces = FrameDecoder(200), FrameDecoder(200)
    assert repr(cut(whole, [data])) == repr(cut(pieces, chunks))
    assert str(whole.error) == str(pieces.error)
    assert whole.buffered_bytes == pieces.buffered_bytes


@given(st.lists(st.binary(max_size=300), max_size=10))
def test_never_more_than_a_frame_is_buffered(chunks: list[bytes]) -> None:
    decoder = FrameDecoder(limit_bytes=100)
    for chunk in chunks:
        decoder.feed(chunk)
        decoder.drain()
        assert decoder.buffered_bytes < 4 + 100


def test_frame_that_comes_in_many_pieces_is_copied_once() -> None:
    """The decoder must not copy the buffer for each of 16,384 pieces, which would copy 8 GB."""
    data = encode([21, b"x" * 2**20])
    decoder = FrameDecoder(limit_bytes=2**21)
    found = cut(decoder, [data[i : i + 64] for i in range(0, len(data), 64)])
    assert found == [([21, b"x" * 2**20], len(data))]


@pytest.mark.parametrize("make", [bytes, bytearray])
def test_returned_messages_do_not_reference_the_buffer(make: Any) -> None:
    decoder = FrameDecoder()
    data = make(encode([21, b"record"]))
    decoder.feed(data[:9])
    decoder.feed(data[9:])
    ((array, _),) = decoder.drain()
    decoder.feed(b"\xff" * 3)
    assert array == [21, b"record"]
    assert type(array[1]) is bytes
