from pathlib import Path

import pytest

from qmgr_bench.pair import pair
from qmgr_bench.transfer_wait import Times, Wait, of_times, waits


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        ([([0.0], [0.004])], Wait("w", 4, 4, 4)),
        ([([0.0, 0.002, 0.004], [0.001, 0.004, 0.007])], Wait("w", 1, 2, 7)),
        ([([0.0], [0.001]), ([5.0], [5.003]), ([9.0], [9.1])], Wait("w", 3, 3, 3)),
    ],
)
def test_waits_are_medians_of_batches(batches: list[Times], found: Wait) -> None:
    assert of_times("w", batches) == found


@pytest.mark.process
def test_link_shows_at_once_what_a_channel_shows_with_its_batch(tmp_path: Path) -> None:
    """No message of a batch is available until the last message of the batch was sent (B12)."""
    with pair(tmp_path) as ends:
        link, channel = waits(ends, 64, 50, 3)
    assert (link.way, channel.way) == ("link", "channel, batches of 50")
    assert link.first_ms < link.batch_ms
    assert channel.first_ms >= 98  # The sender takes this time to send a batch.
    assert link.first_ms < channel.first_ms
