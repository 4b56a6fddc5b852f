"""Tests that a repeated put of a sequenced producer (D1b) gets the same answer as the first one."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.frame import encode
from qmgr_protocol.layout import to_array
from qmgrd.core.context.producer import STAMP_RUNS_MAX
from qmgrd.core.layout import keys
from qmgrd.core.sessions.session import STREAMS_MAX
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import AnyStore, Client, Manager, Producer, Refused, record

ID = b"P" * 16
DAY_MS = 86_400_000


def again(manager: Manager, resume: bool = True) -> Producer:
    """A new connection of the same client."""
    return manager.connect("app").producer(ID, resume)


def resume_code(manager: Manager) -> ErrorCode:
    return manager.connect("app").code_of(m.ProducerOpen, ID, True)


# -- answered as the first time


def test_put_sent_again_is_stored_once(store: AnyStore, app: Client) -> None:
    producer = app.producer(ID)
    batch = [record(b"1"), record(b"2")]
    assert producer.put("Q", *batch) == []
    assert producer.put_again(1, "Q", *batch) == []
    assert producer.commit_id == 2
    assert app.bodies("Q") == [b"1", b"2"]


def test_put_sent_again_after_a_crash_is_stored_once(store: AnyStore, app: Client) -> None:
    producer = app.producer(ID)
    producer.put("Q", record(b"1"))
    app.manager.crash()
    producer = again(app.manager)
    assert producer.commit_id == 1
    assert producer.put_again(1, "Q", record(b"1"), record(b"2")) == []
    assert producer.client.bodies("Q") == [b"1", b"2"]


@pytest.mark.parametrize("clean", [True, False])
def test_put_sent_again_after_it_was_consumed_does_not_come_twice(
    store: AnyStore, app: Client, clean: bool
) -> None:
    """The UID alone would be accepted again after the message was consumed (A11)."""
    app.producer(ID).put("Q", record(b"1"))
    app.ack(*app.get("Q"))
    app.manager.turn(5 * DAY_MS)
    if clean:
        app.manager.restart(5 * DAY_MS)
    else:
        app.manager.crash(5 * DAY_MS)
    producer = again(app.manager)
    assert producer.put_again(1, "Q", record(b"1")) == []
    assert producer.client.bodies("Q") == []


@pytest.mark.parametrize("restart", [False, True])
def test_refusal_is_repeated_even_if_the_cause_is_gone(
    store: AnyStore, app: Client, restart: bool
) -> None:
    """Otherwise, a client that lost the answer might store a put that it reported as refused."""
    manager = app.manager
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    producer = app.producer(ID)
    refused = producer.put("SMALL", record(b"1"), record(b"2"))
    assert [(x.seq_id, x.code) for x in refused] == [(2, ErrorCode.QUEUE_FULL)]
    app.ack(*app.get("SMALL"))
    if restart:
        manager.crash()
    producer = again(manager)
    text = "refused when it was first received: QUEUE_FULL"
    assert producer.refused == [[2, ErrorCode.QUEUE_FULL, text]]
    found = producer.put_again(1, "SMALL", record(b"1"), record(b"2"))
    assert found == [Refused(2, ErrorCode.QUEUE_FULL, text)]
    assert producer.client.bodies("SMALL") == []
    assert producer.put("SMALL", record(b"3")) == []


def test_refusal_is_forgotten_once_seen(app: Client) -> None:
    producer = app.producer(ID)
    assert len(producer.put("NONE", record(b"1"))) == 1
    producer.put("Q", record(b"2"))  # This request has seen = 1.
    assert again(app.manager).refused == []


@pytest.mark.parametrize(
    ("queue", "code"),
    [
        ("NONE", ErrorCode.QUEUE_UNKNOWN),
        ("F@NYC", ErrorCode.QUEUE_UNKNOWN),
        ("a/b", ErrorCode.NAME_INVALID),
        ("", ErrorCode.NAME_INVALID),
        ("@NYC", ErrorCode.QUEUE_IS_TRANSMISSION),
    ],
)
def test_put_to_what_takes_none_is_refused_record_by_record(
    app: Client, queue: str, code: ErrorCode
) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"]})
    refused = app.put_records(queue, record(b"1"), record(b"2"))
    assert [(x.seq_id, x.code) for x in refused] == [(1, code), (2, code)]


def inhibit(app: Client, queue: str, **changes: bool) -> None:
    app.ask(m.QueueAlter, queue, changes)


def test_put_on_an_inhibited_queue_is_refused_until_that_is_lifted(app: Client) -> None:
    app.put("Q", b"before", b"too")
    inhibit(app, "Q", put_inhibit=True)
    refused = app.put_records("Q", record(b"1"), record(b"2"))
    text = "puts are inhibited on queue Q; set its put_inhibit to false to allow them"
    assert [(x.code, x.text) for x in refused] == [(ErrorCode.PUT_INHIBITED, text)] * 2
    first, second = app.get("Q", 2)
    assert app.ack(first) == app.release(second) == []
    inhibit(app, "Q", put_inhibit=False)
    app.put("Q", b"after")
    assert app.bodies("Q") == [b"too", b"after"]


def test_inhibit_applies_to_later_puts_of_the_same_turn(app: Client) -> None:
    producer = app.producer()
    put = m.Put(producer.stream, 1, 0, "Q", [record(b"1")])
    app.send(put, m.QueueAlter(50, "Q", {"put_inhibit": True}), put._replace(first_id=2))
    app.manager.turn()
    (committed,) = [x for x in app.hear() if type(x) is m.Committed]
    assert [row[:2] for row in committed.refused] == [[2, ErrorCode.PUT_INHIBITED]]
    assert app.bodies("Q") == [b"1"]


def test_put_that_was_stored_is_answered_so_though_puts_are_inhibited_now(app: Client) -> None:
    producer = app.producer(ID)
    assert producer.put("Q", record(b"1")) == []
    inhibit(app, "Q", put_inhibit=True)
    assert again(app.manager).put_again(1, "Q", record(b"1")) == []


@pytest.mark.parametrize("queue", ["F@NYC", "@NYC"])
def test_inhibit_of_a_remote_queue_or_of_its_way_refuses_puts(app: Client, queue: str) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    app.ask(m.QueueCreate, "G@NYC")
    inhibit(app, queue, put_inhibit=True)
    (refused,) = app.put_records("F@NYC", record(b"1"))
    assert refused.code is ErrorCode.PUT_INHIBITED
    assert f"on queue {queue};" in refused.text
    assert len(app.put_records("G@NYC", record(b"2"))) == (queue == "@NYC")
    inhibit(app, queue, put_inhibit=False)
    app.put("F@NYC", b"3")


def test_only_what_is_new_in_a_resend_is_stored(app: Client) -> None:
    producer = app.producer(ID)
    producer.put("Q", record(b"1"))
    app.say(m.Put(producer.stream, 3, 0, "Q", [record(b"3")]))
    assert producer.put_again(1, "Q", *(record(b"%d" % i) for i in range(1, 5))) == []
    assert producer.commit_id == 4
    assert app.bodies("Q") == [b"1", b"3", b"2", b"4"]


def test_id_above_a_gap_is_stored_but_not_committed(store: AnyStore, app: Client) -> None:
    producer = app.producer(ID)
    (committed,) = app.say(m.Put(producer.stream, 2, 0, "Q", [record(b"2")]))
    assert committed.commit_id == 0
    assert app.bodies("Q") == [b"2"]
    app.manager.crash()
    producer = again(app.manager)
    assert (producer.commit_id, producer.ahead) == (0, [2])
    producer.put_again(1, "Q", record(b"1"))
    assert producer.commit_id == 2


def test_empty_put_returns_the_commit_id(app: Client) -> None:
    producer = app.producer(ID)
    producer.put("Q", record(b"1"))
    assert app.say(m.Put(producer.stream, 2, 1, "Q", [])) == [m.Committed(producer.stream, 1)]


def test_empty_put_uses_no_id_and_no_queue(app: Client) -> None:
    producer = app.producer(ID)
    producer.put("Q", record(b"1"), b"bad")
    committed = m.Committed(producer.stream, 2)
    assert app.say(m.Put(producer.stream, 3, 2, "NONE", [])) == [committed]
    assert producer.put("Q", record(b"3")) == []
    assert producer.commit_id == 3
    assert app.producer(ID).refused == []  # The producer has seen the refusal.


def test_put_of_nothing_beyond_the_next_id_of_the_window_breaks_the_protocol(app: Client) -> None:
    producer = app.producer(ID)
    window = app.manager.config.limits.put_window_messages
    app.say(m.Put(producer.stream, window + 1, 0, "Q", []))
    assert app.goaway is None
    app.say(m.Put(producer.stream, window + 2, 0, "Q", []))
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.WINDOW_EXCEEDED


def test_message_after_a_gap_is_reported_above_the_commit_id(app: Client) -> None:
    producer = app.producer(ID)
    put = m.Put(producer.stream, 2, 0, "Q", [record(b"2"), b"bad", record(b"4")])
    (committed,) = app.say(put)
    stamps = [x.uid.timestamp for x in app.browse("Q")]
    assert committed.commit_id == 0
    assert committed.stamped == [[2, stamps[0], 1], [4, stamps[1], 1]]
    assert [row[:2] for row in committed.refused] == [[3, ErrorCode.RECORD_MALFORMED]]
    app.say(m.Put(producer.stream, 1, 0, "Q", [record(b"1")]))
    assert app.producer(ID).commit_id == 4
    assert app.bodies("Q") == [b"2", b"4", b"1"]


def test_record_that_is_delivered_is_longer_than_the_largest_by_its_uid() -> None:
    app = Manager(limits={"message_max_bytes": 1_024}).connect()
    app.ask(m.QueueCreate, "Q")
    largest = record(bytes(1_000))
    assert len(largest) == 1_024
    assert app.producer(ID).put("Q", largest) == []
    assert len(app.get("Q")[0].record) == 1_024 + len("QM1") + 8


def test_answers_of_a_turn_are_one(app: Client) -> None:
    producer = app.producer(ID)
    puts = [m.Put(producer.stream, i, 0, "Q", [record(b"x")]) for i in (1, 2, 3)]
    (committed,) = app.say(*puts)
    assert committed.commit_id == 3
    first = app.browse("Q")[0].uid.timestamp
    assert committed.stamped == [[1, first, 3]]


def test_stamps_skip_what_brought_its_own_uid_or_was_refused(app: Client) -> None:
    producer = app.producer(ID)
    batch = [record(b"1"), record(b"2", uid=("A", 1)), record(b"3"), b"bad", record(b"5")]
    (committed,) = app.say(m.Put(producer.stream, 1, 0, "Q", batch))
    stamps = {x.body: x.uid.timestamp for x in app.browse("Q")}
    told = {first + i: stamp + i for first, stamp, n in committed.stamped for i in range(n)}
    assert told == {1: stamps[b"1"], 3: stamps[b"3"], 5: stamps[b"5"]}


@pytest.mark.parametrize("crash", [False, True])
def test_repeated_put_gets_the_same_uid(app: Client, crash: bool) -> None:
    batch = [record(b"1"), record(b"2", uid=("A", 1)), record(b"3"), b"bad", record(b"5")]
    (first,) = app.say(m.Put(app.producer(ID).stream, 1, 0, "Q", batch))
    assert first.stamped
    if crash:
        app.manager.crash()
    other = app.manager.connect()
    stream, _, _, _, stamps = other.ask(m.ProducerOpen, ID, True)
    assert stamps == first.stamped
    (again,) = other.say(m.Put(stream, 1, 0, "Q", batch))
    assert again.stamped == first.stamped
    (part,) = other.say(m.Put(stream, 3, 0, "Q", batch[2:3]))
    assert [run for run in first.stamped if run[0] == 3] == part.stamped
    other.say(m.Put(stream, 6, 5, "Q", []))
    assert other.ask(m.ProducerOpen, ID, True)[4] == [], "the producer has seen them"


def test_number_of_unseen_stamps_is_limited(app: Client) -> None:
    stream = app.producer(ID).stream
    for first_id in range(1, STAMP_RUNS_MAX + 11):
        app.manager.turn(1)  # The new time of each put begins a new run.
        app.say(m.Put(stream, first_id, 0, "Q", [record(b"x")]))
    stamps = app.manager.connect().ask(m.ProducerOpen, ID, True)[4]
    assert [run[0] for run in stamps] == list(range(11, STAMP_RUNS_MAX + 11))


# -- connections


def test_newest_connection_fences_the_older(manager: Manager, app: Client) -> None:
    app.producer(ID)
    new = again(manager)
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.PRODUCER_FENCED
    assert new.put("Q", record(b"1")) == []


def test_opening_that_was_long_under_way_does_not_fence_the_newer(
    manager: Manager, app: Client
) -> None:
    new = again(manager, resume=False)
    app.say(m.ProducerOpen(50, ID))
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.PRODUCER_FENCED
    assert new.put("Q", record(b"1")) == []


@pytest.mark.parametrize("restart", [False, True])
def test_producer_continued_by_another_program_is_not_resumed(
    store: AnyStore, app: Client, restart: bool
) -> None:
    """Otherwise, the program would mistake the other program's puts with these ids for its own."""
    manager = app.manager
    manager.connect("one").ask(m.ProducerOpen, ID, False, 1)
    manager.connect("two").ask(m.ProducerOpen, ID, False, 2)
    if restart:
        manager.crash()
    one = manager.connect("one")
    assert one.code_of(m.ProducerOpen, ID, True, 1) is ErrorCode.PRODUCER_UNKNOWN
    assert manager.connect("two").ask(m.ProducerOpen, ID, True, 2)[1] == 0


def test_put_of_the_fenced_in_the_same_turn_is_too_late(manager: Manager, app: Client) -> None:
    old = app.producer(ID)
    new = manager.connect("app")
    manager.turn()
    new.send(m.ProducerOpen(1, ID))
    app.send(m.Put(old.stream, 1, 0, "Q", [record(b"late")]))
    manager.turn()
    assert app.goaway is not None
    (opened,) = new.hear()
    manager.turn()
    commit_id = opened.value[1]
    assert len(new.bodies("Q")) == commit_id == 0


def test_put_before_the_fence_in_the_same_turn_counts(manager: Manager, app: Client) -> None:
    old = app.producer(ID)
    new = manager.connect("app")
    manager.turn()
    app.send(m.Put(old.stream, 1, 0, "Q", [record(b"before")]))
    new.send(m.ProducerOpen(1, ID))
    manager.turn()
    (opened,) = new.hear()
    assert opened.value[1] == 1
    assert [type(x) for x in app.hear()] == []
    assert new.bodies("Q") == [b"before"]


def test_opening_again_on_the_same_connection_goes_on(app: Client) -> None:
    app.producer(ID).put("Q", record(b"1"))
    producer = app.producer(ID)
    assert (producer.stream, producer.commit_id) == (2, 1)
    assert producer.put("Q", record(b"2")) == []
    assert app.goaway is None


def test_number_of_a_stream_that_was_opened_again_is_closed(app: Client) -> None:
    """The answer to the opening covers the puts under the old number, so no put is repeated."""
    older = app.producer(ID)
    heard = app.say(
        m.Put(older.stream, 1, 0, "Q", [record(b"1")]),
        m.ProducerOpen(50, ID),
        m.Put(older.stream + 1, 2, 0, "Q", [record(b"2")]),
    )
    opened, committed = heard
    (stamp,) = app.browse("Q")[0].uid[1:]
    assert opened == m.Ok(50, [older.stream + 1, 1, [], [], [[1, stamp, 1]]])
    assert (committed.stream, committed.commit_id) == (older.stream + 1, 2)
    app.say(m.Put(older.stream, 3, 0, "Q", [record(b"3")]))
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.STREAM_UNKNOWN


def test_known_producer_goes_on_without_resume_and_a_new_one_begins(app: Client) -> None:
    producer = app.producer(ID)
    assert producer.commit_id == 0
    producer.put("Q", record(b"1"))
    app.say(m.Put(producer.stream, 3, 1, "Q", [record(b"3"), b"bad"]))
    manager = app.manager
    manager.crash()
    other = manager.connect("restarted").producer(ID)
    assert (other.commit_id, other.ahead) == (1, [3, 4])
    assert [row[:2] for row in other.refused] == [[4, ErrorCode.RECORD_MALFORMED]]


def test_restarted_program_resumes_with_the_instance_that_it_stored(
    store: AnyStore, app: Client
) -> None:
    manager = app.manager
    stream = manager.connect("program").ask(m.ProducerOpen, ID, False, 7)[0]
    manager.clients[max(manager.clients)].say(m.Put(stream, 1, 0, "Q", [record(b"1")]))
    manager.crash()
    restarted = manager.connect("program")
    assert restarted.code_of(m.ProducerOpen, ID, True, 8) is ErrorCode.PRODUCER_UNKNOWN
    assert restarted.ask(m.ProducerOpen, ID, True, 7)[1] == 1


def test_put_on_a_stream_that_is_not_open_breaks_the_protocol(app: Client) -> None:
    app.say(m.Put(9, 1, 0, "Q", [record(b"x")]))
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.STREAM_UNKNOWN


def test_put_past_the_window_breaks_the_protocol_and_stores_nothing(manager: Manager) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    producer = app.producer(ID)
    app.say(m.Put(producer.stream, 4_097, 0, "Q", [record(b"x")]))
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.WINDOW_EXCEEDED
    assert manager.connect().bodies("Q") == []


@pytest.mark.parametrize("producer_id", [b"", b"short"])
def test_id_of_another_length_breaks_the_protocol(app: Client, producer_id: bytes) -> None:
    app.write(encode(to_array(m.ProducerOpen(1, producer_id))))
    app.manager.turn()
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.FIELD_INVALID


def test_two_producers_of_one_connection_are_apart(app: Client) -> None:
    first, second = app.producer(ID), app.producer(b"Q" * 16)
    first.put("Q", record(b"1"), record(b"2"))
    second.put("Q", record(b"3"))
    assert (first.commit_id, second.commit_id) == (2, 1)


# -- retention


def test_resuming_a_stranger_is_refused(app: Client) -> None:
    assert resume_code(app.manager) is ErrorCode.PRODUCER_UNKNOWN


def test_unused_producer_is_forgotten_after_its_retention(store: AnyStore, app: Client) -> None:
    """The time starts at the producer's last use, and an opening is a use."""
    manager = app.manager
    app.producer(ID).put("Q", record(b"1"))
    app.hang_up()
    manager.turn(29 * DAY_MS)
    again(manager).client.hang_up()
    manager.turn(29 * DAY_MS)
    manager.rest()
    assert len(manager.scan(keys.SPACE_PRODUCER)) == 1
    manager.turn(2 * DAY_MS)
    manager.rest()
    assert manager.scan(keys.SPACE_PRODUCER) == []
    assert resume_code(manager) is ErrorCode.PRODUCER_UNKNOWN
    assert manager.connect().ask(m.Status)["producers"] == 0


def test_connected_producer_is_kept_at_any_age(app: Client) -> None:
    producer = app.producer(ID)
    producer.put("Q", record(b"1"))
    for _ in range(3):
        app.manager.turn(31 * DAY_MS)
        app.manager.rest()
    assert producer.put("Q", record(b"2")) == []
    app.hang_up()
    assert again(app.manager).commit_id == 2


def many_producers(manager: Manager, count: int) -> list[Client]:
    """Opens *count* producers; returns their connections."""
    clients: list[Client] = []
    for number in range(count):
        if number % STREAMS_MAX == 0:
            clients.append(manager.connect())
        clients[-1].producer(number.to_bytes(16, "big"))
    return clients


def test_retention_goes_on_over_many_turns_and_a_crash(manager: Manager) -> None:
    """Removing 1,200 rows takes several slices. The job continues after a crash in between."""
    for client in many_producers(manager, 1_200):
        client.hang_up()
    manager.turn()
    assert len(manager.scan(keys.SPACE_PRODUCER)) == 1_200
    manager.turn(31 * DAY_MS)
    left = len(manager.scan(keys.SPACE_PRODUCER))
    assert 0 < left < 1_200
    manager.crash()
    manager.rest()
    assert manager.scan(keys.SPACE_PRODUCER) == []
    assert manager.connect().ask(m.Status)["producers"] == 0


def test_retention_gets_past_more_producers_in_use_than_a_slice_holds(manager: Manager) -> None:
    gone = manager.connect("gone")
    many_producers(manager, 600)
    gone.producer(b"\xff" * 16)
    gone.hang_up()
    manager.turn(31 * DAY_MS)
    manager.rest()
    assert len(manager.scan(keys.SPACE_PRODUCER)) == 600


def test_number_of_producers_survives_a_crash(store: AnyStore, app: Client) -> None:
    for i in range(5):
        app.producer(i.to_bytes(16, "big"))
        app.producer(i.to_bytes(16, "big"))
    assert app.ask(m.Status)["producers"] == 5
    app.manager.crash()
    assert app.manager.connect().ask(m.Status)["producers"] == 5


def test_refused_opening_does_not_count() -> None:
    manager = Manager(producer={"producers_max": 1})
    app = manager.connect()
    app.producer(ID)
    with pytest.raises(RequestError):
        app.producer(b"Q" * 16)
    assert app.ask(m.Status)["producers"] == 1


def test_new_producer_takes_the_place_of_an_idle_one_when_no_more_are_kept() -> None:
    manager = Manager(producer={"producers_max": 3})
    app = manager.connect()
    ids = [bytes([i]) * 16 for i in range(1, 6)]
    for producer_id in ids[:3]:
        other = manager.connect()
        other.ask(m.ProducerOpen, producer_id)
        other.hang_up()
        manager.turn()
    # No producer is idle now.
    assert app.code_of(m.ProducerOpen, ids[3]) == ErrorCode.PRODUCERS_EXHAUSTED
    manager.turn(11 * 60_000)
    app.ask(m.ProducerOpen, ids[3])
    assert app.ask(m.Status)["producers"] == 3
    assert app.code_of(m.ProducerOpen, ids[0], True) == ErrorCode.PRODUCER_UNKNOWN
    app.ask(m.ProducerOpen, ids[1], True)  # This producer was used more recently, so it was kept.


def test_streams_of_a_connection_are_bounded(app: Client) -> None:
    for number in range(STREAMS_MAX):
        app.ask(m.ProducerOpen, b"%016d" % number)
    assert app.code_of(m.ProducerOpen, b"one too many 100") == ErrorCode.PRODUCERS_EXHAUSTED
    assert app.code_of(m.ProducerOpen, ID) == ErrorCode.PRODUCERS_EXHAUSTED
    assert app.ask(m.Status)["producers"] == STREAMS_MAX


# -- refused ids that are not marked as seen


@pytest.fixture
def narrow() -> Client:
    """A connection that may have 20 refused ids above seen, to a queue that takes no puts."""
    app = Manager(limits={"put_window_messages": 10}).connect()
    app.ask(m.QueueCreate, "Q", {"put_inhibit": True})
    return app


def refuse(app: Client, producer: Producer, count: int) -> None:
    """Puts *count* messages that are refused, without marking refusals as seen."""
    for _ in range(0, count, 5):
        app.say(m.Put(producer.stream, producer.next_id, 0, "Q", [record(b"x")] * 5))
        producer.next_id += 5


def test_unseen_refusals_of_all_producers_of_a_connection_are_limited(narrow: Client) -> None:
    first, second = narrow.producer(b"1" * 16), narrow.producer(b"2" * 16)
    refuse(narrow, first, 10)
    refuse(narrow, second, 10)
    assert narrow.goaway is None
    narrow.say(m.Put(first.stream, first.next_id, 10, "", []))  # marks ten refusals as seen
    refuse(narrow, first, 10)
    assert narrow.goaway is None
    refuse(narrow, second, 5)
    assert narrow.goaway is not None
    assert narrow.goaway.code == ErrorCode.CREDIT_EXCEEDED
    text = "25 refused puts not marked as seen outstanding; the limit is 20"
    assert narrow.goaway.text == text
    resumed = narrow.manager.connect().producer(b"2" * 16, resume=True)
    assert resumed.commit_id == 15  # The last five are refused, not lost.


def test_single_producer_reaches_only_the_limit_of_its_stream(narrow: Client) -> None:
    refuse(narrow, narrow.producer(ID), 20)
    assert narrow.goaway is None


def test_producer_with_too_many_unseen_refusals_is_opened_later(narrow: Client) -> None:
    ids = [bytes([number]) * 16 for number in range(3)]
    for producer_id in ids:
        other = narrow.manager.connect()
        refuse(other, other.producer(producer_id), 10)
    app = narrow.manager.connect()
    again = app.producer(ids[0], resume=True)
    app.producer(ids[1], resume=True)
    assert app.code_of(m.ProducerOpen, ids[2], True) == ErrorCode.PRODUCERS_EXHAUSTED
    assert app.code_of(m.ProducerOpen, ids[2], True) == ErrorCode.PRODUCERS_EXHAUSTED
    app.say(m.Put(again.stream, 11, 10, "", []))
    assert app.producer(ids[2], resume=True).commit_id == 10


def test_refused_commits_of_units_count_as_refused_puts(narrow: Client) -> None:
    first, second = narrow.producer(b"1" * 16), narrow.producer(b"2" * 16)
    refuse(narrow, first, 20)
    narrow.say(m.UnitCommit(second.stream, 1, 0, 7, 0, 0))
    assert narrow.goaway is not None
    assert narrow.goaway.code == ErrorCode.CREDIT_EXCEEDED


# -- rotten rows


def rot(manager: Manager, key: bytes) -> None:
    """Changes a bit of a row."""
    tx = manager.store.begin()
    value = tx.get(key)
    tx.put(key, bytes([value[0] ^ 4]) + value[1:])
    manager.store.commit()


@pytest.mark.parametrize("resume", [True, False])
def test_producer_with_a_damaged_row_is_refused_and_others_are_served(
    store: AnyStore, app: Client, resume: bool
) -> None:
    app.producer(ID).put("Q", record(b"1"))
    rot(app.manager, keys.SPACE_PRODUCER + ID)
    app.manager.crash()
    client = app.manager.connect()
    client.send(m.ProducerOpen(50, ID, resume))
    outcome = app.manager.turn()
    (error,) = client.hear()
    assert (error.request_id, error.code) == (50, ErrorCode.STORE_DAMAGED)
    assert f"the window of producer {ID.hex()}: its checksum is wrong" in error.text
    (note,) = outcome.notes
    assert (note.level, note.event) == ("error", "the store is damaged")
    assert note.facts["why"] == error.text
    client.producer(b"Q" * 16).put("Q", record(b"2"))
    assert client.bodies("Q") == [b"1", b"2"]


def test_producer_whose_row_rots_while_it_is_connected_goes_on(app: Client) -> None:
    producer = app.producer(ID)
    producer.put("Q", record(b"1"))
    rot(app.manager, keys.SPACE_PRODUCER + ID)
    assert app.manager.connect().code_of(m.ProducerOpen, ID) == ErrorCode.STORE_DAMAGED
    assert producer.put("Q", record(b"2")) == []
    app.manager.crash()
    assert again(app.manager).commit_id == 2


def test_row_that_rotted_outlives_retention(store: AnyStore, app: Client) -> None:
    """Otherwise, the producer would restart at id 1, and repeated puts would be stored twice."""
    for producer_id in (ID, b"Q" * 16):
        app.producer(producer_id).put("Q", record(b"1"))
    app.hang_up()
    app.manager.turn()
    rot(app.manager, keys.SPACE_PRODUCER + ID)
    app.manager.turn(31 * DAY_MS)
    app.manager.rest()
    assert [key for key, _ in app.manager.scan(keys.SPACE_PRODUCER)] == [keys.SPACE_PRODUCER + ID]


# -- counters


def test_puts_that_are_inhibited_count_as_refused_over_a_restart(
    store: AnyStore, app: Client
) -> None:
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    refused = app.put_records("Q", record(b"1"), record(b"2"))
    assert [error.code for error in refused] == [ErrorCode.PUT_INHIBITED] * 2
    assert app.show("Q")["refused"] == 2
    app.manager.restart()
    assert app.manager.connect("app").show("Q")["refused"] == 2


def test_remote_queue_counts_what_it_refuses_at_its_link(app: Client) -> None:
    app.ask(m.LinkCreate, "B", {"addresses": ["h:1"], "stopped": True})
    app.ask(m.QueueCreate, "Q@B")
    app.ask(m.QueueAlter, "Q@B", {"put_inhibit": True})
    assert app.put_records("Q@B", record(b"1"))[0].code is ErrorCode.PUT_INHIBITED
    assert app.show("@B")["refused"] == 1


def test_put_to_no_queue_is_counted_nowhere(app: Client) -> None:
    app.put_records("NONE", record(b"1"))
    app.put_records("@B", record(b"1"))
    assert app.show("Q")["refused"] == 0


def refuse_by_turns(app: Client, producer: Producer, count: int) -> None:
    """Puts messages that are refused for two alternating reasons, and never marks them as seen."""
    for at in range(0, count, 100):
        if app.goaway is not None:
            return
        app.send(
            *[
                m.Put(producer.stream, seq_id, 0, "Q" if seq_id % 2 else "NONE", [record(b"")])
                for seq_id in range(at + 1, at + 101)
            ]
        )
        app.manager.turn()


def test_producer_cannot_make_its_row_longer_and_longer_in_a_full_store(manager: Manager) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    producer = app.producer(ID)
    manager.store.disk_free_bytes = 0
    refuse_by_turns(app, producer, 2_000)
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.CREDIT_EXCEEDED
    assert "refused puts are not marked as seen: open the producer again" in app.goaway.text
    ((_, row),) = manager.scan(keys.SPACE_PRODUCER)
    assert 4_000 < len(row) < 5_000
    resumed = manager.connect()  # The producer continues after the refusals are marked as seen.
    after = resumed.producer(ID, resume=True)
    after.seen = after.commit_id
    assert [found.code for found in after.put("Q", record(b""))] == [ErrorCode.STORE_FULL]
    ((_, row),) = manager.scan(keys.SPACE_PRODUCER)
    assert len(row) < 100


def test_refusals_are_kept_within_the_limit(manager: Manager) -> None:
    app = manager.connect()
    app.ask(m.QueueCreate, "Q", {"put_inhibit": True})
    refuse_by_turns(app, app.producer(ID), 2_000)
    assert app.goaway is None


def test_known_producer_is_opened_again_in_a_full_store(manager: Manager) -> None:
    manager.connect().producer(ID)
    manager.store.disk_free_bytes = 0
    assert manager.connect().producer(ID, resume=True).commit_id == 0
    with pytest.raises(RequestError, match="STORE_FULL"):
        manager.connect().producer(b"another-producer")


# -- users


def opening(client: Client, *, resume: bool) -> ErrorCode:
    return client.code_of(m.ProducerOpen, ID, resume)


@pytest.fixture
def guarded(manager: Manager, app: Client) -> Guarded:
    """A manager with the queue Q, and with users."""
    return Guarded(manager)


def test_producer_belongs_to_the_user_who_created_it(store: AnyStore, guarded: Guarded) -> None:
    """Otherwise, a user who learns the id could read answers, and end the other's connection."""
    bob, eve = guarded.user("bob", "put queue Q"), guarded.user("eve", "put queue Q")
    bob.producer(ID).put("Q", record(b"1"))
    guarded.owner.ask(m.UserAlter, "eve", {"roles": ["administrator"]})
    for _ in range(2):
        assert opening(eve, resume=True) == ErrorCode.PRODUCER_UNKNOWN
        assert opening(eve, resume=False) == ErrorCode.NOT_AUTHORIZED
        assert bob.goaway is None
        guarded.manager.crash()
        eve = guarded.manager.connect("eve", user="eve")
        bob = guarded.manager.connect("bob", user="bob")
    assert bob.producer(ID, resume=True).commit_id == 1


def test_producer_of_another_user_is_not_told_from_an_unknown_one(guarded: Guarded) -> None:
    bob, eve = guarded.user("bob"), guarded.user("eve")
    with pytest.raises(RequestError) as unknown:
        eve.ask(m.ProducerOpen, ID, True)
    bob.producer(ID)
    with pytest.raises(RequestError) as known:
        eve.ask(m.ProducerOpen, ID, True)
    assert str(known.value) == str(unknown.value)


def test_administrator_may_take_a_producer_without_a_user(guarded: Guarded) -> None:
    guarded.owner.producer(ID).put("Q", record(b"1"))
    bob, admin = guarded.user("bob"), guarded.user("chief", roles=("administrator",))
    other = guarded.user("deputy", roles=("administrator",))
    assert opening(bob, resume=False) == ErrorCode.NOT_AUTHORIZED
    assert admin.producer(ID, resume=True).commit_id == 1
    owner = guarded.manager.connect("owner")
    assert owner.producer(ID, resume=True).commit_id == 1  # It may do everything.
    again = guarded.manager.connect("chief", user="chief")
    assert again.producer(ID, resume=True).commit_id == 1
    assert opening(other, resume=True) == ErrorCode.PRODUCER_UNKNOWN


def test_any_user_may_open_any_producer_while_rights_are_only_reported() -> None:
    guarded = Guarded(Manager(auth={"mode": "report"}))
    guarded.user("bob").producer(ID)
    assert guarded.user("eve").producer(ID, resume=True).commit_id == 0


@pytest.mark.parametrize(("records", "least", "most"), [(0, 20, 20), (1, 1, 12)])
def test_rows_with_many_refused_ids_are_written_over_several_turns(
    records: int, least: int, most: int
) -> None:
    """1,000 ids take as long as 100 rows, and a turn here has 1,000. An empty put writes none."""
    manager = Manager(limits={"turn_rows": 1_000})
    manager.connect("app").ask(m.QueueCreate, "Q")
    producers = [manager.connect("app").producer() for _ in range(20)]
    for producer in producers:
        producer.put("Q", *[b"", b"bad"] * 500)
        producer.client.hear()

    def heard() -> int:
        manager.turn()
        return sum(len(producer.client.hear()) for producer in producers)

    for producer in producers:
        producer.client.send(m.Put(producer.stream, 1_001, 0, "Q", [b""] * records))
    answered = heard()
    assert least <= answered <= most
    while answered < 20:
        answered += heard()
    assert answered == 20
