"""Tests of long records that arrive in pieces."""

import random
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid
from qmgrd.core.layout import keys
from qmgrd.core.layout.long_record import VALUE_MAX_BYTES
from qmgrd.core.sessions.incoming_bodies import PIECE_BYTES
from tests.disk_stores import disk_store
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.requests.test_users import VERIFIER

BODY = random.Random(1).randbytes(600_000)
LIMITS = {"message_max_bytes": "4 MiB"}


@pytest.fixture
def manager() -> Manager:
    manager = Manager(limits=LIMITS)
    client = manager.connect("admin")
    client.ask(m.QueueCreate, "Q")
    return manager


@pytest.fixture
def app(manager: Manager) -> Client:
    return manager.connect("app")


def pieces(data: bytes, body: int = 1, size: int = PIECE_BYTES) -> list[m.Piece]:
    """Returns the pieces of a record."""
    return [
        m.Piece(body, len(data), start, data[start : start + size])
        for start in range(0, len(data), size)
    ]


def put(
    client: Client, batch: list[bytes], bodies: list[list[int]], first_id: int = 0
) -> m.Committed:
    """Puts records, of which some are bodies, and returns the answer."""
    if client._producer is None:
        client._producer = client.producer()
    producer = client._producer
    first_id = first_id or producer.next_id
    producer.next_id = first_id + len(batch)
    client.send(m.Put(producer.stream, first_id, 0, "Q", batch, bodies=bodies))
    client.manager.rest()
    (answer,) = [x for x in client.hear() if type(x) is m.Committed]
    return answer


def marks(manager: Manager) -> list[bytes]:
    return [key for key, _ in manager.scan(keys.SPACE_UNOWNED)]


def body_rows(manager: Manager) -> int:
    return len(manager.scan(keys.SPACE_BODY))


@pytest.mark.parametrize("spare", range(0, 4_000, 250))
def test_record_in_pieces_is_stored_like_a_whole_one(
    manager: Manager, app: Client, spare: int
) -> None:
    """The UID may need a further row, so several sizes are tried."""
    body = BODY[: 100_000 + spare]
    data = record(body, correlation_id=b"c", envelope={"a": 1})
    app.send(*pieces(data))
    answer = put(app, [b"", record(b"short")], [[0, 1]])
    assert (answer.refused, len(answer.stamped)) == ([], 1)
    app.put_records("Q", data)
    first, second, third = (app.get("Q")[0] for _ in range(3))
    assert (first.body, second.body, third.body) == (body, b"short", body)
    rows = {key[keys.REST]: row for key, row in manager.scan(keys.SPACE_BODY)}
    of_pieces, of_whole = (
        [row for key, row in rows.items() if key[:8] == body_id]
        for body_id in sorted({key[:8] for key in rows})
    )
    assert list(map(len, of_pieces)) == list(map(len, of_whole))
    assert of_pieces[1:-2] == of_whole[1:-2]
    assert marks(manager) == []
    audit(manager)
    app.ack(first, second, third)
    assert body_rows(manager) == 0
    audit(manager)


def test_record_with_a_uid_keeps_it(manager: Manager, app: Client) -> None:
    data = records.stamp(record(BODY), Uid("ELSEWHERE", 7))
    app.send(*pieces(data))
    assert put(app, [b""], [[0, 1]]).refused == []
    (found,) = app.get("Q")
    assert (found.record, found.uid) == (data, Uid("ELSEWHERE", 7))
    app.send(*pieces(data, 2))
    ((_, code, _),) = put(app, [b""], [[0, 2]]).refused
    assert code == ErrorCode.DUPLICATE_MESSAGE
    assert marks(manager) == []
    assert body_rows(manager) == -(-len(data) // VALUE_MAX_BYTES)
    audit(manager)


def test_two_bodies_arrive_at_the_same_time(manager: Manager, app: Client) -> None:
    one, two = record(BODY), record(BODY[::-1])
    for pair in zip(pieces(one, 1), pieces(two, 2), strict=True):
        app.send(*pair)
    assert put(app, [b"", b""], [[0, 2], [1, 1]]).refused == []
    assert [app.get("Q")[0].body for _ in range(2)] == [BODY[::-1], BODY]
    audit(manager)


@pytest.mark.parametrize(
    ("sent", "batch", "bodies", "code"),
    [
        (slice(0, 3), [b""], [[0, 1]], ErrorCode.RECORD_MALFORMED),  # incomplete
        (slice(None), [b""], [[0, 2]], ErrorCode.RECORD_MALFORMED),  # another body
        (slice(None), [record(b"x")], [[0, 1]], ErrorCode.RECORD_MALFORMED),  # not empty
        (slice(None), [b"", b""], [[0, 1], [1, 1]], ErrorCode.RECORD_MALFORMED),  # twice
    ],
)
def test_put_that_names_no_complete_body_is_refused(
    manager: Manager,
    app: Client,
    sent: slice,
    batch: list[bytes],
    bodies: list[list[int]],
    code: ErrorCode,
) -> None:
    app.send(*pieces(record(BODY))[sent])
    refused = put(app, batch, bodies).refused
    assert [row[1] for row in refused] == [code]
    assert "is not complete, or has a record in its place" in str(refused[0][2])
    audit(manager)
    app.hang_up()
    manager.rest()
    assert marks(manager) == []
    audit(manager)


def test_row_beyond_the_records_has_no_effect(app: Client) -> None:
    app.send(*pieces(record(BODY)))
    assert put(app, [b""], [[0, 1], [5, 1]]).refused == []


def test_damaged_record_is_refused_and_leaves_nothing(manager: Manager, app: Client) -> None:
    data = bytearray(record(BODY))
    data[300_000] ^= 1
    app.send(*pieces(bytes(data)))
    ((_, code, _),) = put(app, [b""], [[0, 1]]).refused
    assert code == ErrorCode.CHECKSUM_MISMATCH
    manager.rest()
    assert (marks(manager), body_rows(manager)) == ([], 0)


def test_body_above_the_limit_is_ignored_and_its_put_refused() -> None:
    manager = Manager(limits={"message_max_bytes": "200 KiB"})
    app = manager.connect("app")
    app.ask(m.QueueCreate, "Q")
    app.send(*pieces(record(BODY)))
    manager.rest()
    assert body_rows(manager) == 0
    ((_, code, text),) = put(app, [b""], [[0, 1]]).refused
    assert code == ErrorCode.MESSAGE_TOO_LARGE
    assert "exceeds the limit of 204800 bytes" in text


def test_queue_limit_of_a_message_holds_for_bodies(manager: Manager, app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"message_max_bytes": 300_000})
    app.send(*pieces(record(BODY)))
    ((_, code, _),) = put(app, [b""], [[0, 1]]).refused
    assert code == ErrorCode.MESSAGE_TOO_LARGE
    manager.rest()
    assert (marks(manager), body_rows(manager)) == ([], 0)


def test_user_can_use_as_much_for_bodies_as_it_leaves_free(manager: Manager, app: Client) -> None:
    context = manager.turns.broker.context
    limit = context.config.store.map_bytes // 4
    context.unused_bodies.count("other", limit - len(BODY))
    app.send(*pieces(record(BODY)))
    ((_, code, text),) = put(app, [b""], [[0, 1]]).refused
    assert code == ErrorCode.STORE_FULL
    assert f"of {limit} bytes for those of all users" in text
    assert marks(manager) == []
    context.unused_bodies.count("other", -2 * len(BODY))
    app.send(*pieces(record(BODY)))
    assert put(app, [b""], [[0, 1]]).refused == []
    assert set(context.unused_bodies.arriving) == {"other"}


def test_declared_size_of_a_body_takes_no_room(manager: Manager, app: Client) -> None:
    unused = manager.turns.broker.context.unused_bodies
    app.send(m.Piece(1, 4 << 20, 0, record(BODY)[:68_000]))
    manager.rest()
    assert unused.arriving == {app.peer.number: 68_000}
    app.hang_up()
    manager.rest()
    assert not unused.arriving


def test_body_that_begins_again_in_one_piece_has_no_other_pieces(
    manager: Manager, app: Client
) -> None:
    app.send(pieces(record(BODY))[0], *pieces(record(BODY[:100_000])))
    assert put(app, [b""], [[0, 1]]).refused == []
    app.send(pieces(record(BODY))[1])
    manager.rest()
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.FIELD_INVALID


def test_unit_put_without_a_right_uses_up_its_bodies(manager: Manager) -> None:
    admin = manager.connect("admin")
    admin.ask(m.UserCreate, "root", {"verifier": VERIFIER, "roles": ["administrator"]})
    admin.ask(m.UserCreate, "weak", {"verifier": VERIFIER, "roles": ["consumer"]})
    weak = manager.connect("weak", user="weak")
    weak.ask(m.UnitBegin, 1)
    weak.send(*pieces(record(BODY)))
    weak.send(m.UnitPut(50, 1, "Q", [b""], [[0, 1]]))
    manager.rest()
    assert weak.hear()[-1].code == ErrorCode.NOT_AUTHORIZED
    assert (marks(manager), body_rows(manager)) == ([], 0)


def test_full_store_refuses_the_put_and_frees_the_rows(tmp_path: Path) -> None:
    manager = Manager(
        disk_store(tmp_path, 4 << 20),
        limits={"message_max_bytes": "1 MiB"},
        store={"map_bytes": "4 MiB", "free_disk_min_bytes": 0},
    )
    app = manager.connect("app")
    app.ask(m.QueueCreate, "Q")
    data = record(bytes(900_000))
    refused: list[list[object]] = []
    while not refused:
        app.send(*pieces(data))
        refused = put(app, [b""], [[0, 1]]).refused
    assert refused[0][1] == ErrorCode.STORE_FULL
    manager.rest()
    assert marks(manager) == []
    audit(manager)
    manager.store.close()


def test_end_of_the_connection_deletes_incomplete_bodies_in_slices(
    manager: Manager, app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qmgrd.core.jobs.jobs.SLICE_ROWS", 20)
    app.send(*pieces(record(BODY))[:4])
    manager.rest()
    before = body_rows(manager)
    assert before > 100
    audit(manager)
    app.hang_up()
    manager.turn()
    assert 0 < body_rows(manager) < before
    audit(manager)
    manager.rest()
    assert (body_rows(manager), marks(manager)) == (0, [])
    assert not manager.turns.broker.context.unused_bodies.arriving


def test_start_deletes_incomplete_bodies(manager: Manager, app: Client) -> None:
    app.send(*pieces(record(BODY))[:4], *pieces(record(BODY), 2))
    manager.rest()
    assert len(marks(manager)) == 2
    manager.crash()
    manager.rest()
    assert (body_rows(manager), marks(manager)) == (0, [])


def test_piece_at_0_begins_the_body_from_scratch(manager: Manager, app: Client) -> None:
    app.send(*pieces(record(BODY))[:3], *pieces(record(BODY[::-1])))
    assert put(app, [b""], [[0, 1]]).refused == []
    assert [x.body for x in app.get("Q")] == [BODY[::-1]]
    manager.rest()
    assert marks(manager) == []
    audit(manager)


def test_repeated_put_uses_up_its_body_without_effect(manager: Manager, app: Client) -> None:
    """B16: After a reconnect, a producer sends the pieces again, and then repeats the put."""
    data = record(BODY)
    app.send(*pieces(data))
    put(app, [b""], [[0, 1]], 1)
    app.send(*pieces(data))
    assert put(app, [b""], [[0, 1]], 1).refused == []
    assert [x.body for x in app.get("Q", 9)] == [BODY]
    manager.rest()
    assert marks(manager) == []
    audit(manager)


def test_put_without_a_right_uses_up_its_bodies(manager: Manager, app: Client) -> None:
    admin = manager.connect("admin")
    admin.ask(m.UserCreate, "root", {"verifier": VERIFIER, "roles": ["administrator"]})
    admin.ask(m.UserCreate, "weak", {"verifier": VERIFIER, "roles": ["consumer"]})
    weak = manager.connect("weak", user="weak")
    weak.send(*pieces(record(BODY)))
    refused = put(weak, [b""], [[0, 1]]).refused
    assert [row[1] for row in refused] == [ErrorCode.NOT_AUTHORIZED]
    manager.rest()
    assert marks(manager) == []


def test_piece_above_the_stated_length_ends_the_connection(app: Client) -> None:
    data = record(BODY)
    app.send(*pieces(data, size=PIECE_BYTES + VALUE_MAX_BYTES)[:1])
    app.manager.turn()
    assert app.goaway is not None
    assert app.goaway.text.endswith("132000 bytes; this queue manager accepts 128000")


def test_order_of_pieces_is_checked(app: Client) -> None:
    app.send(pieces(record(BODY))[1])
    app.manager.turn()
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.FIELD_INVALID


def test_unit_of_work_puts_a_body(manager: Manager, app: Client) -> None:
    producer = app.producer()
    app.ask(m.UnitBegin, 1)
    app.send(*pieces(record(BODY)))
    refused, _ = app.ask(m.UnitPut, 1, "Q", [b"", record(b"2")], [[0, 1]])
    assert refused == []
    manager.rest()
    assert (body_rows(manager), marks(manager)) == (0, [])
    app.say(m.UnitCommit(producer.stream, 1, 0, 1, 2, 0))
    assert [x.body for x in app.get("Q", 2)] == [BODY, b"2"]
    audit(manager)


def test_long_put_with_a_body_is_cut_into_parts(app: Client) -> None:
    app.send(*pieces(record(BODY)))
    batch = [record(b"%d" % number) for number in range(600)]
    batch[500] = b""
    assert put(app, batch, [[500, 1]]).refused == []
    app.consume("Q")
    app.manager.rest()
    found = app.delivered()
    assert [x.body for x in found] == [
        BODY if number == 500 else b"%d" % number for number in range(600)
    ]


def test_pieces_pause_the_reading_of_their_connection_only(manager: Manager, app: Client) -> None:
    other = manager.connect("other")
    app.send(pieces(record(BODY))[0])
    other.send(m.Status(1))
    intake = manager.turns.intake
    assert intake.is_ahead(intake.of(app.peer.number))
    assert not intake.is_ahead(intake.of(other.peer.number))
    manager.turn()
    assert not intake.is_ahead(intake.of(app.peer.number))


def test_turn_takes_one_piece(manager: Manager, app: Client) -> None:
    app.send(*pieces(record(BODY)))
    manager.turn()
    for number in range(1, 4):
        before = body_rows(manager)
        manager.turn()
        assert body_rows(manager) == before + PIECE_BYTES // VALUE_MAX_BYTES, number
