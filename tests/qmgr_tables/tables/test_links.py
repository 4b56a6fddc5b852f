"""Tests of the table of links."""

import json
from pathlib import Path
from typing import cast

from qmgr_tables.tables import links
from qmgr_tables.tables.links import message_id
from qmgrd.core.context.peers import LinkPeer
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as sealed
from qmgrd.store.lmdb_store import LmdbTransaction
from tests.memory_store import MemoryStore
from tests.qmgr_tables import office as offices
from tests.qmgr_tables.damage import damaged_copy
from tests.qmgr_tables.office import by
from tests.qmgr_tables.snapshots import rows
from tests.qmgrd.core.far import FAR_STORE, STREAM


def test_end_that_sends_shows_its_window_and_backlog(office: Path) -> None:
    link = by(rows(office, table="links"), "direction", "peer")["out", "NYC"]
    assert (link["commit_id"], link["next_id"], link["backlog"]) == (0, 5, 4)
    assert (link["state"], link["queue"], link["ordered"]) == ("stopped", "@NYC", True)
    assert (link["transferred"], link["lost"], link["damage"]) == (0, 0, None)
    assert json.loads(link["attributes"])["addresses"] == ["127.0.0.1:1"]


def test_end_that_receives_shows_what_it_holds_behind_a_gap(office: Path) -> None:
    link = by(rows(office, table="links"), "direction", "peer")["in", "FAR"]
    assert (link["commit_id"], link["highest_id"], link["backlog"]) == (2, 6, 2)
    assert (link["held_numbers"], link["last_message_id"]) == ("5-6", "FAR.6")
    assert (link["stream_id"], link["peer_store_id"]) == (STREAM.hex(), FAR_STORE.hex())


def test_damaged_rows_are_rows(tmp_path: Path) -> None:
    copy = damaged_copy(
        offices.make(tmp_path), keys.SPACE_LINK + b"NYC", keys.SPACE_LINK_INBOX + STREAM
    )
    found = by(rows(copy, table="links", verify="false"), "direction")
    assert found["out"]["damage"] == "the definition of link NYC: its checksum is wrong"
    assert (found["out"]["peer"], found["out"]["commit_id"]) == ("NYC", None)
    assert found["in"]["damage"].startswith("the receiving window of stream ")


def test_message_is_named_by_its_encoded_uid() -> None:
    assert message_id(b"QM1" + (7).to_bytes(8, "big")) == "QM1.7"
    assert message_id(None) is None
    assert message_id(b"12345678") is None


def test_store_of_a_peer_is_read_as_older_versions_wrote_it() -> None:
    tx = MemoryStore()
    sealed.put(tx, keys.SPACE_PEER + b"FAR", FAR_STORE)
    assert links._store_of(cast(LmdbTransaction, tx), "FAR") == {"peer_store_id": FAR_STORE.hex()}
    sealed.put(tx, keys.SPACE_PEER + b"FAR", LinkPeer(is_allowed=True).encode())
    assert links._store_of(cast(LmdbTransaction, tx), "FAR") == {}
