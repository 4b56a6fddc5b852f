"""Tests that each put has exactly one result, wherever the connection is cut."""

import pytest

from qmgr_client.message import PutResult
from qmgr_client.sansio.events import Failed, ProducerLost
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgr_protocol.record import Uid
from tests.qmgr_client.scripted import PRODUCER, Scripted


def started(**options: object) -> Scripted:
    """Returns a scripted pair with an open producer and one answered put."""
    pair = Scripted(**options)  # type: ignore[arg-type]
    pair.put(b"first")
    pair.opened()
    put = pair.hear(m.Put)
    assert (put.stream, put.first_id, put.seen) == (7, 1, 0)
    pair.say(m.Committed(7, 1, [], [[1, 500, 1]]))
    return pair


def test_put_before_the_connection_waits_for_it() -> None:
    pair = Scripted()
    ticket = pair.put(b"early")
    pair.connect()
    request = pair.answer_open()
    assert (request.producer_id, request.resume) == (PRODUCER, False)
    put = pair.hear(m.Put)
    assert (put.first_id, put.queue, len(put.records)) == (1, "Q", 1)
    pair.say(m.Committed(7, 1, [], [[1, 500, 1]]))
    assert pair.done[ticket] == PutResult(Uid("QM1", 500), resent=False)


def test_producer_is_not_opened_without_a_put() -> None:
    assert Scripted().connect().pump() == []


def test_puts_that_wait_together_go_together() -> None:
    pair = started()
    tickets = [pair.put(b"%d" % i) for i in range(5)]
    put = pair.hear(m.Put)
    assert (put.first_id, put.seen, len(put.records)) == (2, 1, 5)
    pair.say(m.Committed(7, 6, [], [[2, 600, 2], [4, 700, 3]]))
    stamps = [pair.done[ticket].uid.timestamp for ticket in tickets]
    assert stamps == [600, 601, 700, 701, 702]


def test_frame_holds_the_puts_of_one_queue() -> None:
    pair = started()
    for queue in ["A", "A", "B", "A"]:
        pair.put(queue=queue)
    frames = [(put.queue, put.first_id, len(put.records)) for put in pair.hear_all(m.Put)]
    assert frames == [("A", 2, 2), ("B", 4, 1), ("A", 5, 1)]


def test_frame_has_bounds_in_messages_and_bytes() -> None:
    pair = started()
    for _ in range(1_500):
        pair.put()
    for _ in range(5):
        pair.put(b"." * 100_000)
    assert [len(put.records) for put in pair.hear_all(m.Put)] == [1_000, 502, 2, 1]


def test_without_coalescing_a_frame_holds_one_put() -> None:
    pair = started(coalesce=False)
    for _ in range(3):
        pair.put()
    assert [len(put.records) for put in pair.hear_all(m.Put)] == [1, 1, 1]


def test_window_in_messages_is_kept() -> None:
    pair = started(put_window_messages=4)
    tickets = [pair.put() for _ in range(10)]
    assert sum(len(put.records) for put in pair.hear_all(m.Put)) == 4
    assert not pair.core.can_put, "six puts wait, which exceeds the window"
    pair.say(m.Committed(7, 3, [], [[2, 600, 2]]))
    assert sum(len(put.records) for put in pair.hear_all(m.Put)) == 2
    assert not pair.core.can_put
    pair.say(m.Committed(7, 7, [], [[4, 602, 4]]))
    assert sum(len(put.records) for put in pair.hear_all(m.Put)) == 4
    assert pair.core.can_put
    pair.say(m.Committed(7, 11, [], [[8, 606, 4]]))
    assert set(tickets) <= set(pair.done)


def test_window_in_bytes_is_kept() -> None:
    pair = started(put_window_bytes=10_000)
    for _ in range(4):
        pair.put(b"." * 4_000)
    assert sum(len(put.records) for put in pair.hear_all(m.Put)) == 2
    pair.say(m.Committed(7, 2))
    assert sum(len(put.records) for put in pair.hear_all(m.Put)) == 1


def test_put_beyond_the_window_goes_alone() -> None:
    pair = started(put_window_bytes=1_000)
    pair.put(b"." * 5_000)
    pair.put()
    assert sum(len(put.records) for put in pair.hear_all(m.Put)) == 1
    pair.say(m.Committed(7, 2))
    assert sum(len(put.records) for put in pair.hear_all(m.Put)) == 1


def test_message_beyond_the_limit_is_refused_and_takes_no_id() -> None:
    pair = started(message_max_bytes=1_000)
    long = pair.put(b"." * 1_001)
    pair.put(b"short")
    assert pair.hear(m.Put).first_id == 2
    assert pair.done[long].code == ErrorCode.MESSAGE_TOO_LARGE


def test_refusal_is_the_result_of_that_put_alone() -> None:
    pair = started()
    first, second, third = (pair.put() for _ in range(3))
    pair.hear(m.Put)
    refusal = [3, ErrorCode.QUEUE_FULL, "queue Q holds 1 messages, at most 1"]
    pair.say(m.Committed(7, 4, [refusal], [[2, 600, 1], [4, 601, 1]]))
    assert pair.done[second].code == ErrorCode.QUEUE_FULL
    assert pair.done[first].uid == Uid("QM1", 600)
    assert pair.done[third].uid == Uid("QM1", 601)


def test_seen_is_the_last_commit_id() -> None:
    pair = started()
    pair.put()
    pair.hear(m.Put)
    pair.say(m.Committed(7, 2, [[2, ErrorCode.QUEUE_FULL, "full"]]))
    pair.put()
    assert pair.hear(m.Put).seen == 2


def test_own_uid_is_the_result() -> None:
    pair = started()
    uid = Uid("ELSEWHERE", 12)
    ticket = pair.core.put("Q", records.encode(records.Fields(b"x", uid=uid)), uid)
    pair.hear(m.Put)
    pair.say(m.Committed(7, 2))
    assert pair.done[ticket] == PutResult(uid, resent=False)


def test_cut_before_the_put_is_sent() -> None:
    pair = started()
    ticket = pair.put()
    pair.cut().opened(1)
    assert pair.hear(m.Put).first_id == 2
    pair.say(m.Committed(7, 2, [], [[2, 600, 1]]))
    assert pair.done[ticket] == PutResult(Uid("QM1", 600), resent=False)


def test_cut_after_the_put_is_sent_and_not_stored() -> None:
    pair = started()
    ticket = pair.put(b"again")
    record = pair.hear(m.Put).records
    pair.cut().connect()
    assert pair.answer_open(1).resume
    again = pair.hear(m.Put)
    assert (again.first_id, again.records) == (2, record)
    pair.say(m.Committed(7, 2, [], [[2, 600, 1]]))
    assert pair.done[ticket] == PutResult(Uid("QM1", 600), resent=True)


def test_cut_after_the_put_is_stored_and_its_answer_lost() -> None:
    pair = started()
    ticket = pair.put()
    pair.hear(m.Put)
    pair.cut().opened(2)
    assert pair.done[ticket] == PutResult(None, resent=True), "the UID is no longer known"
    assert pair.hear_all(m.Put) == []


def test_uid_is_learnt_though_the_answer_was_lost() -> None:
    pair = started()
    tickets = [pair.put() for _ in range(4)]
    pair.pump()
    pair.cut().opened(3, [5], [], [[2, 100, 1], [3, 500, 1], [5, 900, 1]])
    found = [pair.done[tickets[i]].uid for i in (0, 1, 3)]
    assert found == [Uid("QM1", 100), Uid("QM1", 500), Uid("QM1", 900)]


def test_cut_after_a_refusal_whose_answer_is_lost() -> None:
    pair = started()
    stored, refused, never_came = (pair.put() for _ in range(3))
    pair.hear(m.Put)
    pair.cut().opened(3, [], [[3, ErrorCode.QUEUE_FULL, "refused when it was first received"]])
    assert pair.done[stored] == PutResult(None, resent=True)
    assert pair.done[refused].code == ErrorCode.QUEUE_FULL
    assert never_came not in pair.done
    assert pair.hear(m.Put).first_id == 4


def test_put_stored_above_a_gap_is_not_repeated() -> None:
    pair = started()
    tickets = [pair.put() for _ in range(5)]
    pair.hear(m.Put)
    pair.cut().opened(2, [4, 5], [[5, ErrorCode.QUEUE_FULL, "full"]])
    assert [put.first_id for put in pair.hear_all(m.Put)] == [3, 6]
    pair.say(m.Committed(7, 6, [], [[3, 600, 1], [6, 601, 1]]))
    assert [pair.done[ticket] for ticket in tickets[:3]] == [
        PutResult(None, True),
        PutResult(Uid("QM1", 600), True),
        PutResult(None, True),
    ]
    assert pair.done[tickets[3]].code == ErrorCode.QUEUE_FULL


def test_cut_while_the_producer_opens() -> None:
    pair = Scripted()
    ticket = pair.put()
    pair.connect().hear(m.ProducerOpen)
    pair.cut().connect()
    assert not pair.answer_open().resume, "the stream was never open"
    pair.hear(m.Put)
    pair.say(m.Committed(7, 1, [], [[1, 500, 1]]))
    assert pair.done[ticket] == PutResult(Uid("QM1", 500), resent=False)


def test_second_cut_before_the_resend_is_answered() -> None:
    pair = started()
    ticket = pair.put()
    pair.hear(m.Put)
    for _ in range(3):
        pair.cut().opened(1)
        assert pair.hear(m.Put).first_id == 2
    pair.say(m.Committed(7, 2, [], [[2, 600, 1]]))
    assert pair.done[ticket] == PutResult(Uid("QM1", 600), resent=True)


def test_resend_keeps_to_a_smaller_window() -> None:
    pair = started()
    tickets = [pair.put() for _ in range(6)]
    pair.hear(m.Put)
    pair.cut().connect(put_window_messages=2)
    pair.answer_open(1)
    assert pair.hear(m.Put).first_id == 2
    assert pair.hear_all(m.Put) == []
    pair.say(m.Committed(7, 3))
    assert len(pair.hear(m.Put).records) == 2
    pair.say(m.Committed(7, 5))
    assert len(pair.hear(m.Put).records) == 2
    pair.say(m.Committed(7, 7))
    assert set(tickets) <= set(pair.done)


def test_stable_producer_goes_on_behind_its_former_process() -> None:
    pair = Scripted()
    pair.put()
    pair.put()
    pair.connect()
    assert not pair.answer_open(41, [43]).resume
    assert [put.first_id for put in pair.hear_all(m.Put)] == [42, 44], "id 43 is in use"


def test_producer_that_is_not_known_any_more() -> None:
    pair = started()
    sent = pair.put()
    pair.hear(m.Put)
    waiting = pair.put(b"never sent")
    pair.cut().connect()
    request = pair.hear(m.ProducerOpen)
    pair.say(m.Error(request.request_id, ErrorCode.PRODUCER_UNKNOWN, 2, 0, "not known here"))
    assert pair.done[sent].error_class is ErrorClass.UNKNOWN_OUTCOME
    assert pair.done[sent].code == ErrorCode.PRODUCER_UNKNOWN
    assert waiting not in pair.done, "an unsent put cannot have been stored"
    assert pair.latest(ProducerLost)
    assert pair.hear_all(m.ProducerOpen) == []
    pair.core.renew_producer(b"q" * 16)
    request = pair.answer_open()
    assert (request.producer_id, request.resume) == (b"q" * 16, False)
    assert pair.hear(m.Put).first_id == 1
    pair.say(m.Committed(7, 1, [], [[1, 900, 1]]))
    assert pair.done[waiting] == PutResult(Uid("QM1", 900), resent=False)


def test_stream_in_an_older_state_is_given_up() -> None:
    pair = started()
    for _ in range(3):
        pair.put()
    pair.hear(m.Put)
    pair.say(m.Committed(7, 3, [], [[2, 600, 2]]))
    pair.cut().opened(2)
    assert pair.results()[-1].error_class is ErrorClass.UNKNOWN_OUTCOME  # type: ignore[union-attr]
    assert pair.latest(ProducerLost)


def test_refusal_to_open_is_the_result_of_all_that_wait() -> None:
    pair = Scripted()
    ticket = pair.put()
    request = pair.connect().hear(m.ProducerOpen)
    pair.say(m.Error(request.request_id, ErrorCode.PRODUCERS_EXHAUSTED, 2, 0, "9 are kept"))
    assert pair.done[ticket].code == ErrorCode.PRODUCERS_EXHAUSTED
    later = pair.put()
    pair.answer_open()
    pair.hear(m.Put)
    pair.say(m.Committed(7, 1))
    assert isinstance(pair.done[later], PutResult)


@pytest.mark.parametrize("answer", [m.Committed(7, 3), m.Committed(7, 2, [], [[2, 600, 2]])])
def test_answer_for_an_id_that_was_never_sent_breaks_the_protocol(answer: m.Committed) -> None:
    pair = started()
    ticket = pair.put()
    pair.hear(m.Put)
    pair.say(answer)
    assert pair.latest(Failed).error.code == ErrorCode.COMMIT_OUT_OF_RANGE
    assert pair.hear(m.Goaway).code == ErrorCode.COMMIT_OUT_OF_RANGE
    assert pair.done[ticket].error_class is ErrorClass.UNKNOWN_OUTCOME


@pytest.mark.parametrize(
    "value", [None, [], [0, 0, []], [7, -1, []], [7, 0, [1, "x"]], [7, 0, [], [[1, 2]]]]
)
def test_malformed_answer_to_the_opening_breaks_the_protocol(value: object) -> None:
    pair = Scripted()
    pair.put()
    request = pair.connect().hear(m.ProducerOpen)
    pair.say(m.Ok(request.request_id, value))
    assert pair.latest(Failed).error.code == ErrorCode.FIELD_INVALID


def test_resume_beyond_what_was_sent_breaks_the_protocol() -> None:
    pair = started()
    pair.cut()
    pair.put()
    pair.opened(5)
    assert pair.latest(Failed).error.code == ErrorCode.COMMIT_OUT_OF_RANGE


def test_answers_of_other_streams_are_ignored() -> None:
    pair = started()
    ticket = pair.put()
    pair.hear(m.Put)
    pair.say(m.Committed(8, 2))
    assert ticket not in pair.done


def test_end_names_what_was_sent_and_what_was_not() -> None:
    pair = started(put_window_messages=1)
    sent, waiting = pair.put(), pair.put()
    pair.hear(m.Put)
    pair.say(m.Goaway(ErrorCode.PRODUCER_FENCED, "a newer connection took over"))
    assert pair.done[sent].error_class is ErrorClass.UNKNOWN_OUTCOME
    assert pair.done[waiting].error_class is ErrorClass.NEVER
    with pytest.raises(RequestError, match="a newer connection took over"):
        pair.put()


def test_publication_reports_its_matching_subscriptions() -> None:
    """C4: The result of a publication states the number of matching subscriptions."""
    pair = started()
    tickets = [pair.put(b"%d" % i, "/flights/JFK") for i in range(4)]
    assert pair.hear(m.Put).queue == "/flights/JFK"
    pair.say(m.Committed(7, 5, [], [[2, 600, 4]], matched=[[2, 3, 1_000], [5, 1, 0]]))
    assert [pair.done[ticket].subscriptions for ticket in tickets] == [1_000, 1_000, 1_000, 0]
    assert [pair.done[ticket].uid.timestamp for ticket in tickets] == [600, 601, 602, 603]


def test_put_to_a_queue_fits_no_subscriptions_that_are_known() -> None:
    pair = started()
    to_queue, to_topic = pair.put(), pair.put(queue="/flights")
    pair.hear_all(m.Put)
    pair.say(m.Committed(7, 3, [], [[2, 600, 2]], matched=[[3, 1, 7]]))
    assert [pair.done[ticket].subscriptions for ticket in (to_queue, to_topic)] == [None, 7]


def test_refused_publication_matches_nothing() -> None:
    pair = started()
    tickets = [pair.put(b"%d" % i, "/flights") for i in range(3)]
    pair.hear(m.Put)
    refusal = [3, ErrorCode.QUEUE_FULL, "full"]
    pair.say(m.Committed(7, 4, [refusal], [[2, 600, 1], [4, 601, 1]], matched=[[2, 3, 5]]))
    first, second, third = (pair.done[ticket] for ticket in tickets)
    assert (first.subscriptions, third.subscriptions) == (5, 5)
    assert second.code == ErrorCode.QUEUE_FULL


def test_publication_above_a_gap_reports_its_matching_subscriptions() -> None:
    """A stamp answers a put above a gap immediately."""
    pair = started()
    tickets = [pair.put(b"%d" % i, "/flights") for i in range(3)]
    pair.hear(m.Put)
    pair.say(m.Committed(7, 1, [], [[3, 600, 2]], matched=[[3, 1, 5], [4, 1, 6]]))
    assert tickets[0] not in pair.done
    assert [pair.done[ticket].subscriptions for ticket in tickets[1:]] == [5, 6]
    pair.say(m.Committed(7, 4, [], [[2, 602, 1]], matched=[[2, 1, 4]]))
    assert pair.done[tickets[0]] == PutResult(Uid("QM1", 602), False, 4)


def test_publication_with_its_own_uid_reports_its_matching_subscriptions() -> None:
    pair = started()
    uid = Uid("ELSEWHERE", 12)
    ticket = pair.core.put("/flights", records.encode(records.Fields(b"x", uid=uid)), uid)
    pair.hear(m.Put)
    pair.say(m.Committed(7, 2, matched=[[2, 1, 3]]))
    assert pair.done[ticket] == PutResult(uid, False, 3)


def test_matching_subscriptions_are_unknown_if_the_answer_was_lost() -> None:
    """The queue manager reports the number only once, and not in the answer to a resume."""
    pair = started()
    stored, lost = pair.put(b"stored", "/flights"), pair.put(b"lost", "/flights")
    pair.hear(m.Put)
    pair.cut().connect()
    pair.answer_open(2)
    assert pair.hear(m.Put).first_id == 3
    pair.say(m.Committed(7, 3, [], [[3, 600, 1]], matched=[[3, 1, 8]]))
    assert pair.done[stored] == PutResult(None, True, None)
    assert pair.done[lost] == PutResult(Uid("QM1", 600), True, 8)


def test_runs_of_what_fits_are_read_no_further_than_was_sent() -> None:
    pair = started()
    ticket = pair.put(b"x", "/flights")
    pair.hear(m.Put)
    endless = [[1, 2**62, n] for n in range(10_000)]
    pair.say(m.Committed(7, 2, [], [[2, 600, 1]], matched=endless))
    assert pair.done[ticket].subscriptions == 9_999
