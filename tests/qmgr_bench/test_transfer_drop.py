from pathlib import Path

import pytest

from qmgr_bench.network import Network
from qmgr_bench.pair import pair
from qmgr_bench.transfer_drop import Dropped, ResentMessages, drop, of_batch, without_held

NONE = ResentMessages("link", "measured", 0, 0)
SIZES = {5: 1, 6: 10, 7: 100, 8: 1_000, 9: 10_000}


@pytest.mark.parametrize(
    ("missing", "messages", "size_bytes"),
    [({5}, 5, 11_111), ({7}, 3, 11_100), ({6, 8}, 4, 11_110), ({9}, 1, 10_000)],
)
def test_commit_id_alone_has_all_above_it_go_again(
    missing: set[int], messages: int, size_bytes: int
) -> None:
    found = without_held(Dropped("", NONE, SIZES, frozenset(missing)))
    assert (found.how, found.messages, found.bytes) == ("computed", messages, size_bytes)


@pytest.mark.parametrize(
    ("batch", "messages", "size_bytes"), [(1, 1, 10_000), (2, 2, 11_000), (9, 5, 11_111)]
)
def test_open_batch_goes_again_as_a_whole(batch: int, messages: int, size_bytes: int) -> None:
    found = of_batch(Dropped("", NONE, SIZES, frozenset({6})), batch)
    assert (found.how, found.messages, found.bytes) == ("computed", messages, size_bytes)


@pytest.mark.process
@pytest.mark.parametrize("is_all", [False, True], ids=["one cut", "all cut"])
def test_only_what_is_missing_goes_again(tmp_path: Path, *, is_all: bool) -> None:
    """Messages that the receiver holds above the gap are not sent again (B13)."""
    with pair(tmp_path, {"QMGRD_LINK__COMMIT_MESSAGES": "50"}) as ends, Network() as network:
        found = drop(ends, network, 1_000, 256, is_all=is_all)
    assert len(found.bytes_of) == 1_000
    assert 0 < len(found.missing) <= found.resent.messages < without_held(found).messages
