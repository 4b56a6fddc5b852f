"""Tests that damage to a definition or a window is found."""

from pathlib import Path

import pytest

from qmgr_protocol.codec import pack, unpack
from qmgrd.core.layout import keys
from qmgrd.verify.verify import verify
from tests.qmgrd.snapshot import stores
from tests.qmgrd.snapshot.stores import (
    INBOX,
    ORIGIN,
    OUTBOX,
    Change,
    delete,
    edit,
    flip,
    put,
    put_sealed,
)


def queue_row(**changed: object) -> Change:
    return edit(keys.SPACE_QUEUE + b"Q", lambda row: pack(unpack(row) | changed))


DAMAGES: list[tuple[str, bytes, Change]] = [
    ("key", b"\x77", put(b"\x77", b"")),
    ("key", b"\x00\x77", put_sealed(b"\x00\x77", b"")),
    ("key", keys.SPACE_PRODUCER + b"x", put_sealed(keys.SPACE_PRODUCER + b"x", b"")),
    ("seal", keys.STORE, flip(keys.STORE)),
    ("seal", keys.CLOCK, flip(keys.CLOCK, 0)),
    ("seal", keys.NEXT_QUEUE, flip(keys.NEXT_QUEUE)),
    ("seal", keys.SPACE_QUEUE + b"@NYC", flip(keys.SPACE_QUEUE)),
    ("seal", keys.SPACE_LINK + b"NYC", flip(keys.SPACE_LINK)),
    ("seal", keys.SPACE_TEMPLATE + b"EMP*", flip(keys.SPACE_TEMPLATE)),
    ("content", keys.SPACE_TEMPLATE + b"a b", put_sealed(keys.SPACE_TEMPLATE + b"a b", b"\x80")),
    ("content", keys.SPACE_TEMPLATE + b"B*", put_sealed(keys.SPACE_TEMPLATE + b"B*", b"\x90")),
    (
        "content",
        keys.SPACE_QUEUE + b"X",
        put_sealed(
            keys.SPACE_QUEUE + b"X", pack({"kind": "alias", "queue_id": 0, "alias_of": "@NYC"})
        ),
    ),
    ("seal", keys.of_queue(keys.SPACE_COUNTERS, 1), flip(keys.SPACE_COUNTERS, 9)),
    ("seal", OUTBOX, flip(OUTBOX)),
    ("seal", keys.job(9), flip(keys.job(9))),
    ("seal-stream", keys.SPACE_PEER + b"NYC", flip(keys.SPACE_PEER)),
    ("seal-stream", keys.SPACE_PRODUCER + b"0000000000000001", flip(keys.SPACE_PRODUCER)),
    ("seal-stream", INBOX, flip(INBOX)),
    ("seal-origin", keys.of_queue(ORIGIN, 1) + b"ELSE", flip(ORIGIN, 3)),
    ("seal-note", keys.note(1, 3), flip(keys.SPACE_NOTE)),
    ("content", keys.note(1, 3), put_sealed(keys.note(1, 3), b"\x90")),
    (
        "content",
        keys.job(9),
        put_sealed(keys.job(9), pack({"kind": "sweep", "queue_id": 5, "cursor": b"", "first": 1})),
    ),
    ("content", keys.SPACE_QUEUE + b"Q", queue_row(kind="remote")),
    ("content", keys.NEXT_QUEUE, edit(keys.NEXT_QUEUE, lambda row: b"\0\0\0\x07")),
    ("content", INBOX, put_sealed(INBOX, b"\xc1")),
    ("content", OUTBOX, put_sealed(OUTBOX, pack(["x"]))),
    ("content", keys.SPACE_PEER + b"NYC", put_sealed(keys.SPACE_PEER + b"NYC", b"N")),
    ("seal", keys.SECRET, flip(keys.SECRET)),
    ("content", keys.SECRET, put_sealed(keys.SECRET, b"short")),
    ("missing", keys.CLEAN, delete(keys.CLEAN)),
    ("missing", keys.of_queue(keys.SPACE_COUNTERS, 1), delete(keys.SPACE_COUNTERS)),
]


@pytest.mark.parametrize(("fault", "key", "damage"), DAMAGES)
def test_damage_is_found_as_itself_and_once(
    store: Path, fault: str, key: bytes, damage: Change
) -> None:
    stores.check_found(store, fault, key, damage)


@pytest.mark.parametrize(
    ("definition", "counts"),
    [
        (keys.SPACE_QUEUE + b"Q", {"missing": 1, "stray": 4}),  # entries, index, origins, a note
        (keys.SPACE_QUEUE + b"@NYC", {"missing": 2, "stray": 2}),  # includes the rows of the link
        (keys.SPACE_LINK + b"NYC", {"missing": 2}),  # missing for @NYC and F@NYC
    ],
)
def test_rows_of_a_missing_definition_are_reported(
    store: Path, definition: bytes, counts: dict[str, int]
) -> None:
    stores.change(store, delete(definition))
    assert verify(store).findings.counts == counts


@pytest.mark.parametrize(
    ("attributes", "counts"),
    [
        ({"addresses": [], "routes": ["EWR"]}, {}),
        ({"addresses": ["h:1"], "routes": ["*"]}, {}),
        ({"addresses": ["h:1"]}, {"missing": 1}),
    ],
)
def test_remote_queue_needs_a_link_or_a_route(
    store: Path, attributes: dict[str, object], counts: dict[str, int]
) -> None:
    stores.change(store, edit(keys.SPACE_LINK + b"NYC", lambda row: pack(unpack(row) | attributes)))
    key = keys.SPACE_QUEUE + b"Q@EWR"
    stores.change(store, put_sealed(key, pack({"kind": "remote", "queue_id": 0})))
    assert verify(store).findings.counts == counts
