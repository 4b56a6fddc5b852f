import pytest

from qmgr_bench.tap import Tap
from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.frame import encode
from qmgr_proxy.proxy import Way

OPEN = m.LinkOpen(1, bytes(24), 1, 8, bytes(16), 3)


def frame(message: m.Message) -> bytes:
    return encode(layout.to_array(message))


def put(first_id: int, *records: bytes) -> bytes:
    return frame(m.Put(1, first_id, 0, "Q", list(records)))


@pytest.mark.parametrize("piece", [1, 7, 1_000])
def test_frames_are_counted_however_they_come(piece: int) -> None:
    tap = Tap()
    forth = frame(OPEN) + put(1, b"a", b"bb") + put(3, b"c") + frame(m.CommitAsk(1))
    back = frame(m.Committed(1, 2)) + frame(m.Committed(1, 3))
    for way, data in ((Way.FORTH, forth), (Way.BACK, back)):
        for at in range(0, len(data), piece):
            tap.take(5, way, data[at : at + piece])
    assert tap.frames == {m.LinkOpen: 1, m.Put: 2, m.CommitAsk: 1, m.Committed: 2}
    assert tap.path_of == {5: 3}
    assert tap.bytes_of == {1: 1, 2: 2, 3: 1}
    assert tap.records == 3
    assert tap.flow_bytes == len(forth) - len(frame(OPEN)) + len(back)


def test_repeated_messages_are_distinguished() -> None:
    tap = Tap()
    tap.take(0, Way.FORTH, put(1, b"a", b"bb"))
    tap.take(1, Way.FORTH, put(2, b"bb", b"ccc"))
    assert (tap.again_messages, tap.again_bytes, tap.records) == (1, 2, 4)
    assert tap.sent_over == {1: 0, 2: 0, 3: 1}


def test_connection_that_was_cut_within_a_frame_leaves_the_next_alone() -> None:
    tap = Tap()
    tap.take(0, Way.FORTH, put(1, b"a")[:-2])
    tap.take(1, Way.FORTH, put(1, b"a"))
    assert (tap.records, tap.again_messages) == (1, 0)


def test_cleared_tap_counts_anew_and_knows_its_connections() -> None:
    tap = Tap()
    whole = put(1, b"a")
    tap.take(0, Way.FORTH, frame(OPEN) + put(1, b"a") + whole[:3])
    tap.clear()
    tap.take(0, Way.FORTH, whole[3:])
    assert (tap.frames, tap.path_of, tap.again_messages) == ({m.Put: 1}, {0: 3}, 0)


def test_newer_messages_are_skipped() -> None:
    tap = Tap()
    tap.take(0, Way.BACK, encode((10_000, 1)) + frame(m.Committed(1, 2)))
    assert tap.frames == {m.Committed: 1}
