"""Tests of link messages that the target cannot store (G18). tests/sim tests whole networks."""

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.system import DEAD_LETTERS, EVENTS
from qmgrd.core.queue.notes import NOTE_MAX_BYTES
from qmgrd.core.returns import link_shares
from qmgrd.core.sessions import undeliverable
from qmgrd.core.sessions.link_streams import STREAMS_MAX
from qmgrd.store.lmdb_store import LmdbStore
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.far import FAR_STORE, STREAM, Far, message
from tests.qmgrd.core.harness import WALL_US, AnyStore, Client, Manager, record

LONG = b"x" * 2_000
MADE: list[Manager] = []


@pytest.fixture(autouse=True)
def audited() -> Iterator[None]:
    """Checks all managers that a test created against their stores."""
    MADE.clear()
    yield
    for manager in MADE:
        audit(manager)
        if isinstance(manager.store, LmdbStore):
            manager.store.close()


def manager_of(store: AnyStore | None = None, retries: int = 2) -> tuple[Client, Far]:
    """Returns a manager with queue Q that gives up after *retries* retries, and a link to it."""
    manager = Manager(store, link={"deliver_retries": retries})
    MADE.append(manager)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    far = Far(manager)
    far.open()
    return app, far


def codes(sent: list[Any]) -> list[tuple[int, int]]:
    """Returns the ids that are held back, and the reason for each."""
    return [(x.seq_id, x.code) for x in sent if type(x) is m.Blocked]


def notes(app: Client) -> list[dict[str, Any]]:
    return [unpack(found.tail) for found in app.browse(DEAD_LETTERS)]


def events(app: Client, name: str) -> list[dict[str, Any]]:
    found = [json.loads(body) for body in app.bodies(EVENTS)]
    return [event for event in found if event["event"] == name]


def inbound(app: Client) -> tuple[Any, ...]:
    (row,) = app.ask(m.LinkList)["inbound"]
    return row["blocked_id"], row["blocked_queue"], row["tries_left"], row["error"]


def refuse(far: Far, times: int, queue: str = "NONE", batch: tuple[bytes, ...] = ()) -> None:
    """Sends messages until they have been refused *times* times."""
    for _ in range(times):
        assert codes(far.send(1, *(batch or (message(1),)), queue=queue))


def test_message_is_held_back_for_ever_as_installed_G8(app: Client) -> None:
    far = Far(app.manager)
    far.open()
    refuse(far, 50)
    assert inbound(app)[:3] == (1, "NONE", None)
    assert app.bodies(DEAD_LETTERS) == []
    app.ask(m.QueueCreate, "NONE")
    assert far.send(1, message(1), queue="NONE") == []
    assert (app.bodies("NONE"), far.committed()) == ([b"1"], [1])
    assert inbound(app) == (None, None, None, "")


def test_message_refused_n_times_is_a_dead_letter_with_a_header_G18() -> None:
    app, far = manager_of(retries=2)
    refuse(far, 2)
    assert app.bodies(DEAD_LETTERS) == []
    assert far.send(1, message(1), queue="NONE") == []
    assert app.bodies(DEAD_LETTERS) == [b"1"]
    (note,) = notes(app)
    text = note.pop("text")
    assert text.startswith("queue NONE does not exist here")
    assert note == {
        "code": ErrorCode.QUEUE_UNKNOWN,
        "reason": "",
        "queue": "NONE",
        "manager": "QM1",
        "us": app.manager.wall_us,
        "failed": 2,
        "delivered": 0,
    }
    assert far.committed() == [1]
    assert events(app, "message dead-lettered") == [
        {
            "event": "message dead-lettered",
            "count": 1,
            "manager": "QM1",
            "queue": "NONE",
            "to": DEAD_LETTERS,
            "why": "QUEUE_UNKNOWN",
        }
    ]


def test_all_that_a_put_brings_is_given_up_together() -> None:
    app, far = manager_of(retries=2)
    batch = tuple(message(seq_id) for seq_id in range(1, 6))
    refuse(far, 2, batch=batch)
    assert far.send(1, *batch, queue="NONE") == []
    assert app.bodies(DEAD_LETTERS) == [b"1", b"2", b"3", b"4", b"5"]
    assert far.committed() == [5]


def test_others_go_on_in_their_order_G18() -> None:
    """Later messages are stored while one message is held back, and are not stored twice."""
    app, far = manager_of(retries=1)
    for _ in range(2):
        far.send(1, message(1), message(2))
        far.send(3, message(3), queue="NONE")
        far.send(4, message(4), record(b"5", uid=("FAR", 5), priority=9), message(6))
    assert app.bodies("Q") == [b"5", b"1", b"2", b"4", b"6"]
    assert app.bodies(DEAD_LETTERS) == [b"3"]
    assert far.committed() == [6]


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        ("NONE", ErrorCode.QUEUE_UNKNOWN),
        ("FULL", ErrorCode.QUEUE_FULL),
        ("SMALL", ErrorCode.QUEUE_BYTES_FULL),
        ("SHORT", ErrorCode.MESSAGE_TOO_LARGE),
        ("R@FAR", ErrorCode.QUEUE_IS_REMOTE),
        ("@FAR", ErrorCode.QUEUE_IS_TRANSMISSION),
        ("a/b", ErrorCode.NAME_INVALID),
        ("/a/#", ErrorCode.TOPIC_INVALID),
        ("SYSTEM.PUBLICATIONS", ErrorCode.QUEUE_IS_SUBSCRIPTION),
    ],
)
def test_what_a_person_has_to_see_to_is_given_up(queue: str, code: ErrorCode) -> None:
    app, far = manager_of(retries=1)
    app.ask(m.LinkCreate, "FAR", {"addresses": ["h:1"]})
    app.ask(m.QueueCreate, "R@FAR")
    app.ask(m.QueueCreate, "FULL", {"depth_max": 1})
    app.put("FULL", b"full")
    app.ask(m.QueueCreate, "SMALL", {"bytes_max": 1_024})
    app.ask(m.QueueCreate, "SHORT", {"message_max_bytes": 1_024})
    long = record(LONG, uid=("FAR", 1))
    assert codes(far.send(1, long, queue=queue)) == [(1, code)]
    assert far.send(1, long, queue=queue) == []
    (note,) = notes(app)
    assert (note["code"], note["queue"]) == (code, queue)
    assert app.bodies(DEAD_LETTERS) == [LONG]


def test_what_is_wanted_to_wait_is_never_given_up() -> None:
    app, far = manager_of(retries=1)
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    for _ in range(5):
        assert codes(far.send(1, message(1))) == [(1, ErrorCode.PUT_INHIBITED)]
    assert inbound(app)[:3] == (1, "Q", None)
    app.ask(m.QueueAlter, "Q", {"put_inhibit": False})
    assert far.send(1, message(1)) == []
    assert (app.bodies("Q"), app.bodies(DEAD_LETTERS)) == ([b"1"], [])


def test_full_store_and_unsound_records_are_never_given_up() -> None:
    app, far = manager_of(retries=1)
    for _ in range(3):
        sound = message(1)
        assert codes(far.send(1, sound[:-1] + b"?")) == [(1, ErrorCode.CHECKSUM_MISMATCH)]
        assert codes(far.send(1, record(b"no UID"))) == [(1, ErrorCode.RECORD_MALFORMED)]
    app.manager.store.disk_free_bytes = 0
    for _ in range(3):
        assert codes(far.send(1, message(1))) == [(1, ErrorCode.STORE_FULL)]
    assert app.bodies(DEAD_LETTERS) == []


def test_only_refusals_that_a_dead_letter_helps_are_counted() -> None:
    app, far = manager_of(retries=2)
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True, "depth_max": 1})
    refuse(far, 9, "Q")
    app.ask(m.QueueAlter, "Q", {"put_inhibit": False})
    app.put("Q", b"full")
    refuse(far, 2, "Q")
    assert far.send(1, message(1)) == []
    assert notes(app)[0]["failed"] == 2


def member(seq_id: int, number: int, *, last: bool = False) -> bytes:
    return record(b"%d" % seq_id, uid=("FAR", seq_id), group=(b"g" * 24, number, last))


@pytest.mark.parametrize("retries", [0, 3])
def test_member_that_can_never_be_stored_does_not_stop_its_link(retries: int) -> None:
    """The number exists, or the group has ended. The message becomes a dead letter immediately."""
    app, far = manager_of(retries=retries)
    assert far.send(1, member(1, 1), member(2, 2, last=True)) == []
    refused = {3: ErrorCode.GROUP_NUMBER_TAKEN, 4: ErrorCode.GROUP_ENDED}
    for seq_id, number in ((3, 1), (4, 5)):
        assert far.send(seq_id, member(seq_id, number)) == []
    assert [note["code"] for note in notes(app)] == list(refused.values())
    assert far.committed() == [4]


def test_link_fills_only_a_share_of_the_store_with_dead_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, far = manager_of(retries=0)
    far.send(1, member(1, 1), member(2, 1))
    monkeypatch.setattr(link_shares, "MAP_SHARE", app.manager.config.store.map_bytes)
    assert codes(far.send(3, member(3, 1))) == [(3, ErrorCode.GROUP_NUMBER_TAKEN)]
    assert "links may fill it up to 1 bytes" in inbound(app)[3]
    assert far.send(4, message(4)) == []
    app.ask(m.QueuePurge, DEAD_LETTERS)
    assert far.send(3, member(3, 1)) == []
    assert app.bodies(DEAD_LETTERS) == [b"3"]


def test_dead_letter_over_a_link_has_no_group_if_its_number_exists() -> None:
    """Otherwise, no queue manager could store the message, and its link would stop for ever."""
    app, far = manager_of()
    far.send(1, member(1, 1), member(2, 2))
    for seq_id in (3, 4):
        far.send(seq_id, member(seq_id, 1))
    assert app.bodies(DEAD_LETTERS) == [b"3", b"4"]
    assert far.committed() == [4]


# -- no queue for the dead letter


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        (
            {"depth_max": 1},
            "queue SYSTEM.DEAD.LETTERS is full: it has 1 message, and the limit is 1",
        ),
        ({"put_inhibit": True}, "puts are inhibited on queue SYSTEM.DEAD.LETTERS"),
        ({"message_max_bytes": 1_024}, "the limit of 1024"),
    ],
)
def test_what_has_no_place_stays_at_its_sender_until_there_is_one_G18(
    attributes: dict[str, Any], words: str
) -> None:
    app, far = manager_of(retries=1)
    app.manager.fill(DEAD_LETTERS, record(b"other"))
    app.ask(m.QueueAlter, DEAD_LETTERS, attributes)
    long = record(LONG, uid=("FAR", 1))
    refuse(far, 1, batch=(long,))
    for _ in range(3):
        (blocked,) = far.send(1, long, queue="NONE")
        assert (blocked.seq_id, blocked.code) == (1, ErrorCode.QUEUE_UNKNOWN)
        assert blocked.text.startswith("queue NONE does not exist here")
        assert "; SYSTEM.DEAD.LETTERS cannot accept it either: " in blocked.text
        assert words in blocked.text
    assert inbound(app)[:3] == (1, "NONE", 0)
    assert far.committed() == []
    assert events(app, "dead letter has no place")[0]["queue"] == "NONE"
    app.ask(m.QueueAlter, DEAD_LETTERS, dict.fromkeys(attributes))
    assert far.send(1, long, queue="NONE") == []
    assert app.bodies(DEAD_LETTERS) == [b"other", LONG]


def test_dead_letters_that_are_full_hold_back_from_the_first_that_has_no_place() -> None:
    app, far = manager_of(retries=1)
    app.ask(m.QueueAlter, DEAD_LETTERS, {"depth_max": 2})
    batch = tuple(message(seq_id) for seq_id in range(1, 5))
    refuse(far, 1, batch=batch)
    assert codes(far.send(1, *batch, queue="NONE")) == [(3, ErrorCode.QUEUE_UNKNOWN)]
    assert far.committed() == [2]
    assert app.bodies(DEAD_LETTERS) == [b"1", b"2"]


def test_invalid_record_for_a_missing_queue_is_no_dead_letter() -> None:
    app, far = manager_of(retries=1)
    for _ in range(3):
        (blocked,) = far.send(1, message(1)[:-1] + b"?", queue="NONE")
    assert "cannot accept it either: CHECKSUM_MISMATCH" in blocked.text
    assert app.bodies(DEAD_LETTERS) == []


# -- exactly once


def test_dead_letter_that_is_sent_again_after_a_crash_is_not_doubled_G18(store: AnyStore) -> None:
    """The receiver dies before its report. The dead letter is stored once, consumed or not."""
    app, far = manager_of(store, retries=1)
    refuse(far, 1)
    far.send(1, message(1), queue="NONE")
    far.send(2, message(2))
    app.manager.crash()
    app, far = app.manager.connect(), Far(app.manager)
    assert far.open()[:3] == [2, [], b"FAR" + (2).to_bytes(8, "big")]
    app.ask(m.QueueCreate, "NONE")  # Now the message could be stored.
    assert far.send(1, message(1), queue="NONE") == []
    assert (app.bodies("NONE"), app.bodies(DEAD_LETTERS)) == ([], [b"1"])
    app.ack(*app.get(DEAD_LETTERS))
    far.send(1, message(1), queue="NONE")
    assert (app.bodies("NONE"), app.bodies(DEAD_LETTERS)) == ([], [])


def test_highest_id_held_may_be_a_dead_letters(store: AnyStore) -> None:
    """The sender requests the UID to check whether the two stores belong together."""
    app, far = manager_of(store, retries=1)
    refuse(far, 1)
    far.send(1, message(1), queue="NONE")
    app.manager.crash()
    assert Far(app.manager).open()[:3] == [1, [], b"FAR" + (1).to_bytes(8, "big")]


def test_message_with_a_copy_among_the_dead_letters_stays_at_its_sender() -> None:
    """The copy may come from another queue over another path, so the message is separate work."""
    app, far = manager_of(retries=1)
    app.manager.fill(DEAD_LETTERS, message(1))
    refuse(far, 1)
    refuse(far, 1)
    assert app.bodies(DEAD_LETTERS) == [b"1"]


@pytest.mark.parametrize("clean", [True, False])
def test_restart_resets_the_counts(store: AnyStore, clean: bool) -> None:
    app, far = manager_of(store, retries=2)
    refuse(far, 2)
    if clean:
        app.manager.restart()
    else:
        app.manager.crash()
    far = Far(app.manager)
    far.open()
    refuse(far, 2)
    assert far.send(1, message(1), queue="NONE") == []
    assert app.manager.connect().bodies(DEAD_LETTERS) == [b"1"]


def test_counts_outlive_a_connection() -> None:
    app, far = manager_of(retries=2)
    refuse(far, 2)
    far.client.hang_up()
    again = Far(app.manager)
    again.open()
    assert inbound(app)[:3] == (1, "NONE", 0)
    assert again.send(1, message(1), queue="NONE") == []


def test_ids_deleted_at_the_sender_are_forgotten() -> None:
    """The messages may have expired at the sender, for example."""
    app, far = manager_of()
    refuse(far, 1, batch=(message(1), message(2)))
    far.send(1, b"", queue="")
    assert inbound(app)[:3] == (2, "NONE", 1)
    far.send(2, b"", queue="")
    assert inbound(app) == (None, None, None, "")
    assert app.bodies(DEAD_LETTERS) == []


# -- data that moves with a message


def test_dead_letter_never_expires_and_is_available_at_once() -> None:
    app, far = manager_of(retries=1)
    app.ask(m.QueueAlter, DEAD_LETTERS, {"expiry_max_ms": 1_000})
    batch = [
        record(b"1", uid=("FAR", 1), expiry_ms=60_000, delay_ms=50_000),
        record(b"2", uid=("FAR", 2), expiry_ms=60_000),
        record(b"3", uid=("FAR", 3)),
    ]
    put = m.Put(far.stream, 1, 0, "NONE", batch, [[1, {m.EXTRA_EXPIRY_MS: 7_000}]])
    for _ in range(2):
        far.client.say(put)
    assert app.bodies(DEAD_LETTERS) == [b"1", b"2", b"3"]
    assert [note.get("left_ms") for note in notes(app)] == [60_000, 7_000, None]
    app.manager.turn(100_000)
    app.manager.rest()
    assert app.bodies(DEAD_LETTERS) == [b"1", b"2", b"3"]


def test_note_that_came_along_is_kept_below_the_header() -> None:
    app, far = manager_of(retries=1)
    attempts = [[WALL_US, ErrorCode.MESSAGE_REJECTED, "BAD_CARRIER", "", "billing"]]
    came = {"code": 1, "queue": "ORDERS", "left_ms": 5, "retries": 3, "attempts": attempts}
    too_long = came | {"other": "x" * (NOTE_MAX_BYTES - 150)}
    put = m.Put(
        far.stream,
        1,
        0,
        "NONE",
        [message(1), message(2)],
        [[0, {m.EXTRA_NOTE: pack(came)}], [1, {m.EXTRA_NOTE: pack(too_long)}]],
    )
    for _ in range(2):
        far.client.say(put)
    note, cut = notes(app)
    assert (note["code"], note["queue"]) == (ErrorCode.QUEUE_UNKNOWN, "NONE")
    assert (note["retries"], note["attempts"]) == (3, attempts)
    assert "left_ms" not in note
    assert (cut["queue"], cut["attempts"], "other" in cut) == ("NONE", attempts, False)


def test_dead_letter_goes_to_its_queue_once_that_is_there_G18() -> None:
    app, far = manager_of(retries=1)
    long = record(b"1", uid=("FAR", 1), expiry_ms=60_000)
    refuse(far, 1, batch=(long,))
    far.send(1, long, queue="NONE")
    app.ask(m.QueueCreate, "NONE")
    app.ask(m.QueueMove, DEAD_LETTERS, "")
    app.manager.rest()
    assert (app.bodies("NONE"), app.bodies(DEAD_LETTERS)) == ([b"1"], [])
    app.manager.turn(60_001)
    app.manager.rest()
    assert app.bodies("NONE") == []  # The remaining lifetime continues to run.


# -- reports


def test_link_is_reported_as_blocked_once_until_it_continues() -> None:
    app, far = manager_of(retries=9)
    refuse(far, 3)
    told = {
        "event": "link blocked",
        "count": 1,
        "manager": "QM1",
        "link": "FAR",
        "queue": "NONE",
        "why": "QUEUE_UNKNOWN",
    }
    assert events(app, "link blocked") == [told]
    app.ask(m.QueueCreate, "NONE")
    far.send(1, message(1), queue="NONE")
    far.send(2, message(2), queue="NONE2")
    assert events(app, "link blocked") == [told, told | {"queue": "NONE2"}]


def test_inbound_row_shows_the_first_that_is_refused() -> None:
    app, far = manager_of(retries=3)
    far.send(2, message(2), queue="OTHER")
    refuse(far, 2)
    assert inbound(app)[:3] == (1, "NONE", 1)
    assert inbound(app)[3].startswith("QUEUE_UNKNOWN: queue NONE does not exist here")


def test_of_many_streams_the_one_refused_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(undeliverable, "STREAMS_MAX", 2)
    app, far = manager_of()
    for number in (1, 2, 1, 3):
        far.open(FAR_STORE + number.to_bytes(8, "big"))
        refuse(far, 1)
    rows = app.ask(m.LinkList)["inbound"]
    known = {row["stream"]: row["tries_left"] for row in rows}
    assert known == {
        STREAM.hex(): 0,
        (FAR_STORE + (2).to_bytes(8, "big")).hex(): None,
        (FAR_STORE + (3).to_bytes(8, "big")).hex(): 1,
    }


def test_refused_messages_do_not_stay_in_memory() -> None:
    app, far = manager_of()
    refuse(far, 2, queue="REFUSED")
    assert inbound(app)[:3] == (1, "REFUSED", 0)
    gc.collect()
    kept = [found for found in gc.get_objects() if type(found) is m.Put]
    assert [put for put in kept if put.queue == "REFUSED"] == []


def test_refusals_of_streams_that_a_peer_replaced_are_forgotten() -> None:
    app, _ = manager_of()
    links = app.manager.turns.broker.streams.links
    for number in range(2, STREAMS_MAX + 9):
        far = Far(app.manager)
        far.open(FAR_STORE + number.to_bytes(8, "big"))
        refuse(far, 1)
        far.client.hang_up()
        app.manager.turn()
    assert len(links._undeliverable._streams) < STREAMS_MAX
