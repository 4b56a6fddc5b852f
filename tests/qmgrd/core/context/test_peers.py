"""Tests of peers that may open links. Unknown queue managers learn nothing and change nothing."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, class_of
from qmgr_protocol.frame import encode
from qmgr_protocol.layout import to_array
from qmgrd.core.context import peers as link_peers
from qmgrd.core.context.peers import LinkPeer
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from tests.qmgrd.core.far import FAR_STORE, STREAM, Far, message
from tests.qmgrd.core.harness import STORE_ID, AnyStore, Client, Manager
from tests.qmgrd.core.lines import Lines

OTHER_STORE = b"X" * 16
PEER = keys.SPACE_PEER + b"FAR"
FETCH = m.LinkFetch(2, 0, 8 << 20, 4 << 20, 100, 1 << 20)
SECRET = b"for FAR's eyes only"


@pytest.fixture
def manager(store: AnyStore) -> Manager:
    """Returns a queue manager that accepts links only from defined peers."""
    return Manager(store, link={"inbound": "defined"})


@pytest.fixture
def app(manager: Manager) -> Client:
    client = manager.connect()
    client.ask(m.QueueCreate, "Q")
    return client


class Stranger(Far):
    """A queue manager that claims to be FAR and records every byte received."""

    def __init__(self, manager: Manager, store_id: bytes = OTHER_STORE) -> None:
        super().__init__(manager, store_id=store_id)
        self.heard = bytearray()
        read = self.client.read

        def listen(data: bytes) -> None:
            self.heard += data
            read(data)

        self.client.read = listen  # type: ignore[method-assign]

    def try_all(self, store_id: bytes) -> list[ErrorCode]:
        """Opens each stream that FAR may have, and fetches. Returns the error codes."""
        streams = (store_id + number.to_bytes(8, "big") for number in range(1, 4))
        tries: list[Any] = [m.LinkOpen(10, stream, 1, 100) for stream in streams]
        answers = [self.client.say(each) for each in [*tries, FETCH]]
        return [ErrorCode(answer.code) for told in answers for answer in told]


def linked(app: Client) -> Far:
    """Sets up a link from FAR that delivered a message, and one to FAR with a pending message."""
    app.ask(m.LinkAllow, "FAR")
    app.ask(m.LinkCreate, "FAR", {"addresses": []})
    app.ask(m.QueueCreate, "F@FAR")
    app.put("F@FAR", SECRET)
    far = Far(app.manager)
    far.open(life=b"the real life")
    far.send(1, message(1))
    return far


def facts(manager: Manager) -> list[tuple[bytes, bytes]]:
    """Returns the stored rows without the row of the clock."""
    return [(key, value) for key, value in manager.scan(b"") if key != keys.CLOCK]


def check_nothing_told(stranger: Stranger) -> None:
    for secret in (FAR_STORE, FAR_STORE.hex().encode(), STREAM, b"the real life", SECRET):
        assert secret not in stranger.heard
    assert STORE_ID not in stranger.heard[-300:], "closed after the handshake"


# -- strangers


def test_stranger_without_a_definition_learns_and_changes_nothing(
    app: Client, manager: Manager
) -> None:
    before = facts(manager)
    stranger = Stranger(manager)
    codes = stranger.try_all(OTHER_STORE)
    assert codes == [ErrorCode.PEER_NOT_ALLOWED] * 3 + [ErrorCode.LINK_UNKNOWN]
    check_nothing_told(stranger)
    assert facts(manager) == before


def test_stranger_with_the_name_of_a_peer_and_another_store_learns_and_changes_nothing(
    app: Client, manager: Manager
) -> None:
    far = linked(app)
    before = facts(manager)
    stranger = Stranger(manager)
    codes = stranger.try_all(OTHER_STORE)
    assert codes == [ErrorCode.PEER_STORE_CHANGED] * 4
    check_nothing_told(stranger)
    assert facts(manager) == before
    far.client.hear()
    far.send(2, message(2))
    assert far.committed()[-1:] == [2], "the real FAR continues and was not fenced"
    assert far.client.goaway is None
    assert app.bodies("Q") == [b"1", b"2"]
    ok, opening = far.client.say(FETCH)
    assert (type(ok), type(opening)) == (m.Ok, m.LinkOpen)
    (put,) = far.client.say(m.Ok(1, [1, 0, [], None, 4096, 1, 0, b""]))
    assert SECRET in put.records[0], "its pending messages are intact"


def test_stranger_that_names_a_stream_of_the_peer_is_cut_off(app: Client, manager: Manager) -> None:
    linked(app)
    stranger = Stranger(manager)
    stranger.client.say(m.LinkOpen(10, STREAM, 1, 100))
    assert stranger.client.goaway is not None
    assert stranger.client.goaway.code == ErrorCode.FIELD_INVALID
    check_nothing_told(stranger)


def test_stranger_cannot_fetch_from_a_link_that_has_addresses(
    app: Client, manager: Manager
) -> None:
    app.ask(m.LinkCreate, "FAR", {"addresses": ["h:1"]})
    before = facts(manager)
    stranger = Stranger(manager)
    assert stranger.try_all(OTHER_STORE)[-1] is ErrorCode.LINK_DOWN
    check_nothing_told(stranger)
    assert facts(manager) == before, "the peer is not pinned"


def test_first_store_that_connects_is_pinned_unless_the_store_id_is_given(
    app: Client, manager: Manager
) -> None:
    app.ask(m.LinkAllow, "FAR")
    Stranger(manager).open(OTHER_STORE + STREAM[16:])
    assert Stranger(manager, FAR_STORE).try_all(FAR_STORE)[0] is ErrorCode.PEER_STORE_CHANGED
    row = app.ask(m.LinkAllow, "FAR", FAR_STORE)
    assert row["store_id"] == FAR_STORE.hex()
    assert Far(manager).open()[0] == 0
    app.ask(m.LinkDisallow, "FAR")
    app.ask(m.LinkAllow, "FAR", FAR_STORE)
    assert Stranger(manager).try_all(OTHER_STORE)[0] is ErrorCode.PEER_STORE_CHANGED


@pytest.mark.parametrize(
    "message_",
    [m.LinkOpen(5, STREAM, 1, 1), FETCH, m.CommitAsk(1), m.Committed(1, 5), m.Blocked(1, 5, 303)],
)
def test_client_may_not_send_link_messages(app: Client, message_: Any) -> None:
    client = app.manager.connect()
    app.ask(m.LinkAllow, "app")
    client.write(encode(to_array(message_)))
    assert client.goaway is not None
    assert client.goaway.code == ErrorCode.STATE_VIOLATION


def test_unrequested_replies_of_a_queue_manager_close_its_connection(
    app: Client, manager: Manager
) -> None:
    linked(app)
    before = facts(manager)
    for answer in (m.Committed(1, 1, taken=1), m.Blocked(1, 1, 303), m.Ok(1, None)):
        stranger = Stranger(manager)
        stranger.client.say(answer)
        assert stranger.client.goaway is not None
        assert stranger.client.goaway.code == ErrorCode.NOT_AUTHORIZED
    assert facts(manager) == before


# -- definitions


def test_definition_survives_a_restart_and_ends_by_disallow(app: Client, manager: Manager) -> None:
    app.ask(m.LinkAllow, "FAR")
    manager.crash()
    far, app = Far(manager), manager.connect()
    assert far.open()[0] == 0
    assert app.ask(m.LinkDisallow, "FAR") == {"connections": 1, "inbound": "defined"}
    assert far.client.goaway is not None
    assert far.client.goaway.code == ErrorCode.PEER_NOT_ALLOWED
    assert Stranger(manager, FAR_STORE).try_all(FAR_STORE)[0] is ErrorCode.PEER_NOT_ALLOWED
    assert app.code_of(m.LinkDisallow, "FAR") is ErrorCode.LINK_UNKNOWN
    assert manager.scan(PEER) == []


def test_stream_resumes_where_it_was_when_its_sender_is_allowed_again(
    app: Client, manager: Manager
) -> None:
    app.ask(m.LinkAllow, "FAR")
    far = Far(manager)
    far.open()
    far.send(1, message(1))
    app.ask(m.LinkDisallow, "FAR")
    app.ask(m.LinkAllow, "FAR")
    assert Far(manager).open()[0] == 1


def test_pin_of_a_link_stays_when_its_peer_may_no_longer_send(
    app: Client, manager: Manager
) -> None:
    linked(app)
    app.ask(m.LinkDisallow, "FAR")
    (kept,) = manager.scan(PEER)
    assert link_peers.decode(kept[1][:-4]).store_id == FAR_STORE
    assert Stranger(manager).try_all(OTHER_STORE)[-1] is ErrorCode.PEER_STORE_CHANGED
    app.ask(m.QueueDelete, "F@FAR")
    app.ask(m.LinkDelete, "FAR", True)
    assert manager.scan(PEER) == []


def test_deletion_of_a_link_keeps_the_definition_of_the_peer(app: Client, manager: Manager) -> None:
    linked(app)
    app.ask(m.QueueDelete, "F@FAR")
    app.ask(m.LinkDelete, "FAR", True)
    assert Far(manager).open()[0] == 1
    assert app.code_of(m.LinkDelete, "FAR") is ErrorCode.LINK_UNKNOWN


def test_dial_pins_the_peer_but_does_not_allow_it() -> None:
    lines = Lines(Manager(link={"inbound": "defined"}))
    lines.up()
    app = lines.app
    assert [row["peer"] for row in app.ask(m.LinkList)["allowed"]] == []
    stranger = Far(lines.manager, "NYC", b"N" * 16)
    code = stranger.client.code_of(m.LinkOpen, b"N" * 16 + STREAM[16:], 1, 1)
    assert code is ErrorCode.PEER_NOT_ALLOWED


def test_link_that_dials_and_fetches_needs_no_definition() -> None:
    lines = Lines(Manager(link={"inbound": "defined"}), 1, fetch=True)
    lines.app.ask(m.QueueCreate, "Q")
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    assert [type(x) for x in line.sent] == [m.LinkOpen, m.LinkFetch]
    line.sent.clear()
    line.say(m.Ok(2, None), m.LinkOpen(1, b"N" * 16 + STREAM[16:], 1, 5))
    (answer,) = line.sent
    line.say(m.Put(answer.value[0], 1, 0, "Q", [message(1)]))
    assert lines.app.bodies("Q") == [b"1"]


def test_dial_that_reaches_another_store_sends_nothing_of_its_stream() -> None:
    lines = Lines(Manager(link={"inbound": "defined"}), 1)
    lines.app.ask(m.LinkAllow, "NYC", OTHER_STORE)
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    assert line.sent == []
    assert line.goaway is not None
    assert line.goaway.code == ErrorCode.PEER_STORE_CHANGED


def test_peer_of_an_older_version_stays_allowed(app: Client, manager: Manager) -> None:
    """An older version stored only the store id in the row."""
    tx = manager.store.begin()
    rows.put(tx, PEER, FAR_STORE)
    manager.store.commit()
    manager.crash()
    assert Far(manager).open()[0] == 0
    assert Stranger(manager).try_all(OTHER_STORE)[0] is ErrorCode.PEER_STORE_CHANGED
    (row,) = manager.connect().ask(m.LinkList)["allowed"]
    assert (row["peer"], row["store_id"]) == ("FAR", FAR_STORE.hex())
    assert row["seen_us"] is not None


def test_disallow_reports_whether_any_peer_may_open_links(store: AnyStore) -> None:
    app = Manager(store, link={"inbound": "any"}).connect()
    Far(app.manager).open()
    assert app.ask(m.LinkDisallow, "FAR") == {"connections": 1, "inbound": "any"}
    assert Far(app.manager).open()[0] == 0


def test_number_of_definitions_is_limited(store: AnyStore) -> None:
    app = Manager(store, link={"inbound": "any", "peers_max": 2}).connect()
    app.ask(m.LinkAllow, "A")
    app.ask(m.LinkAllow, "A")
    far = Far(app.manager)
    far.open()
    assert app.code_of(m.LinkAllow, "C") is ErrorCode.LINKS_EXHAUSTED
    other = Far(app.manager, "OTHER", OTHER_STORE)
    code = other.client.code_of(m.LinkOpen, OTHER_STORE + STREAM[16:], 1, 1)
    assert code is ErrorCode.LINKS_EXHAUSTED
    app.manager.crash()
    app = app.manager.connect()
    assert app.ask(m.LinkList)["allowed_count"] == 2
    app.ask(m.LinkDisallow, "A")
    app.ask(m.LinkAllow, "C")


def test_definition_of_this_queue_manager_itself_is_refused(app: Client) -> None:
    assert app.code_of(m.LinkAllow, "QM1") is ErrorCode.PEER_WRONG
    assert app.code_of(m.LinkAllow, "a b") is ErrorCode.NAME_INVALID
    assert app.code_of(m.LinkDisallow, "a b") is ErrorCode.NAME_INVALID


def test_damaged_definition_is_replaced_or_deleted_by_an_operator(
    app: Client, manager: Manager
) -> None:
    app.ask(m.LinkAllow, "FAR", FAR_STORE)
    tx = manager.store.begin()
    tx.put(PEER, (tx.get(PEER) or b"") + b"!")
    manager.store.commit()
    manager.crash()
    app = manager.connect()
    assert Stranger(manager, FAR_STORE).try_all(FAR_STORE)[0] is ErrorCode.STORE_DAMAGED
    (row,) = app.ask(m.LinkList)["allowed"]
    assert "its checksum is wrong" in row["error"]
    app.ask(m.LinkAllow, "FAR", FAR_STORE)
    assert Far(manager).open()[0] == 0
    app.ask(m.LinkDisallow, "FAR")
    assert app.ask(m.LinkList)["allowed_count"] == 0


def test_new_store_id_releases_the_old_store(app: Client, manager: Manager) -> None:
    app.ask(m.LinkAllow, "FAR")
    far = Far(manager)
    far.open()
    app.ask(m.LinkAllow, "FAR", OTHER_STORE)
    assert far.client.goaway is not None
    assert Stranger(manager).open(OTHER_STORE + STREAM[16:])[0] == 0


@pytest.mark.parametrize("row", [b"", b"x" * 15, b"\x90", pack({"store_id": b"x"})])
def test_unreadable_row_is_refused(row: bytes) -> None:
    with pytest.raises(ValueError, match=r"msgpack|map|store id"):
        link_peers.decode(row)


def test_row_of_a_newer_version_keeps_unknown_fields() -> None:
    known = LinkPeer(FAR_STORE, is_allowed=True, more={"rate": 5})
    assert link_peers.decode(known.encode()) == known


# -- refused peers


def test_refused_peers_are_listed_and_logged_once_by_name(app: Client, manager: Manager) -> None:
    notes = []
    for _ in range(3):
        stranger = Stranger(manager)
        stranger.client.send(m.LinkOpen(10, OTHER_STORE + STREAM[16:], 1, 100))
        notes += manager.turn().notes
    assert [note.event for note in notes] == ["link from a peer refused"]
    (row,) = app.ask(m.LinkList)["refused"]
    assert (row["peer"], row["code"], row["count"]) == ("FAR", "PEER_NOT_ALLOWED", 3)
    assert row["store_id"] == OTHER_STORE.hex()
    app.ask(m.LinkAllow, "FAR")
    assert app.ask(m.LinkList)["refused"] == []


def test_names_of_refused_peers_are_limited_in_memory_and_in_the_log(
    app: Client, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_peers, "REFUSED_MAX", 3)
    notes: list[Any] = []
    for number in range(9):
        far = Far(manager, f"N{number}", OTHER_STORE)
        far.client.send(m.LinkOpen(10, OTHER_STORE + STREAM[16:], 1, 100))
        notes += manager.turn().notes
    assert len(notes) == 3
    assert [row["peer"] for row in app.ask(m.LinkList)["refused"]] == ["N8", "N7", "N6"]


# -- at the sender


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PEER_NOT_ALLOWED,
        ErrorCode.NOT_AUTHORIZED,
        ErrorCode.PEER_STORE_CHANGED,
        ErrorCode.LINKS_EXHAUSTED,
    ],
)
def test_link_that_its_peer_refuses_retries(code: ErrorCode) -> None:
    lines = Lines(Manager(), 1)
    told = []
    for _ in range(3):
        line = lines.answer()
        line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
        line.sent.clear()
        line.say(m.Error(1, code, class_of(code), 0, "no"))
        told += [note.event for note in lines.manager.last.notes]
        assert line.goaway is not None
        row = lines.row
        assert (row["state"], row["retry_ms"]) == ("refused", 30_000)
        assert row["error"] == f"{code.name}: no"
        lines.turn(29_999)
        assert lines.dials == []
        lines.turn(1)
    assert told == ["link refused"], "logged once"
    lines.up()
    assert (lines.row["state"], lines.row["error"]) == ("up", "")


def test_link_that_was_refused_for_a_damaged_row_waits_for_an_operator_here() -> None:
    lines = Lines(Manager(), 1)
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    line.say(m.Error(1, ErrorCode.STORE_DAMAGED, 2, 0, "the row of a stream is damaged"))
    lines.turn(600_000)
    assert lines.dials == []
    assert (lines.row["state"], lines.row["retry_ms"]) == ("refused", None)


def test_refused_link_that_was_stopped_meanwhile_does_not_retry() -> None:
    lines = Lines(Manager(), 1)
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    line.say(m.Error(1, ErrorCode.PEER_NOT_ALLOWED, 1, 0, "no"))
    lines.app.ask(m.LinkStop, "NYC")
    lines.turn(60_000)
    assert lines.dials == []
    assert lines.row["state"] == "stopped"
