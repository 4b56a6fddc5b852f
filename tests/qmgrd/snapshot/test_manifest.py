"""Tests that the checksum of a manifest covers its content, but not its layout."""

import pytest

from qmgrd.snapshot.manifest import CHECKSUM, checksum

MANIFEST = {"format": 1, "queues": [{"queue": "Ä", "ranges": [{"last_arrival": 90}]}]}


def test_checksum_is_that_of_json_with_sorted_keys() -> None:
    """PROTOCOL.md describes the same check as: printf ... | sha256sum."""
    assert checksum({"b": [1, None], "a": "Ä"}) == (
        "691e1f32f8a14e4e2125948be537ec88fe2d566207cd06dc6920b5cbc83f5d82"
    )


def test_order_and_the_checksum_itself_do_not_count() -> None:
    turned = {CHECKSUM: checksum(MANIFEST), **dict(reversed(MANIFEST.items()))}
    assert checksum(turned) == checksum(MANIFEST)


@pytest.mark.parametrize(
    "other",
    [
        {**MANIFEST, "format": 2},
        {**MANIFEST, "more": None},
        {"format": 1},
        {**MANIFEST, "queues": [{"queue": "Ä", "ranges": [{"last_arrival": 10}]}]},
    ],
)
def test_anything_else_counts(other: dict[str, object]) -> None:
    assert checksum(other) != checksum(MANIFEST)
