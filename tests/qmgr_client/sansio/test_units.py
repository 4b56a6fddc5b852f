"""Tests of units of work in the core: numbers of steps, commits and lost connections."""

from typing import Any

import pytest

from qmgr_client.errors import QueueFull, UnknownOutcome
from qmgr_client.message import Home, Message, PutResult, decode
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import Failed
from qmgr_client.sansio.units import Unit, outcomes
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.record import Uid
from qmgr_protocol.states import Side
from tests.qmgr_client.keeper import Keeper
from tests.qmgr_client.scripted import NAME, PRODUCER, RESULTS, STORE, Scripted, delivery

RECORD = records.encode(records.Fields(b"x"))


class Working:
    """A scripted pair with a unit of work that has begun, and with an open producer."""

    def __init__(self) -> None:
        self.pair = Scripted().connect()
        self.unit = self.begin()

    def begin(self) -> Unit:
        ticket = self.pair.core.begin_unit()
        request = self.pair.hear(m.UnitBegin)
        self.pair.say(m.Ok(request.request_id))
        found = self.pair.done[ticket]
        assert isinstance(found, Unit)
        assert found.number == request.unit
        return found

    def put(self, *uids: Uid | None) -> int:
        return self.pair.core.unit_put(self.unit, "Q", [(RECORD, uid) for uid in uids or (None,)])

    def stamped(self, refused: Any = (), count: int = 1) -> None:
        request = self.pair.hear(m.UnitPut)
        value = [list(refused), [[0, 500, count]]]
        self.pair.say(m.Ok(request.request_id, value))

    def ack(self, arrival: int = 1) -> int:
        return self.pair.core.settle(leased(arrival), m.ACK, unit=self.unit)

    def commit(self) -> int:
        return self.pair.core.commit(self.unit)

    def code_of(self, ticket: int) -> int:
        error = self.pair.done[ticket]
        assert isinstance(error, RequestError), error
        return error.code


def leased(arrival: int) -> Message:
    return decode(delivery(b"x", arrival), "Q", 3, Home(STORE, 1))


def refused_with(code: int, ask: Any) -> None:
    with pytest.raises(RequestError) as caught:
        ask()
    assert caught.value.code == code


@pytest.mark.parametrize("within", [False, True])
def test_settle_of_a_message_in_a_unit_names_the_unit(within: bool) -> None:
    working = Working()
    pair = working.pair
    working.ack(1)
    pair.hear(m.Settle)
    pair.say(m.Settled(1))
    again = working.ack(1) if within else pair.core.settle(leased(1), m.RELEASE)
    other = pair.core.settle(leased(2), m.ACK)
    assert len(pair.hear_all(m.Settle)) == 2
    pair.say(m.Settled(3, [[2, 0, ErrorCode.LEASE_LOST], [3, 0, ErrorCode.LEASE_LOST]]))
    assert str(pair.done[again]) == (
        "LEASE_LOST: an open unit of work acknowledged this message: commit it, or back it out"
    )
    assert "another consumer may have" in str(pair.done[other])
    assert (working.unit.error, len(working.unit.gets)) == (None, 1)


def test_message_of_a_unit_that_is_over_may_be_anothers() -> None:
    working = Working()
    pair = working.pair
    working.ack(1)
    pair.hear(m.Settle)
    pair.say(m.Settled(1))
    pair.core.back_out(working.unit)
    ticket = pair.core.settle(leased(1), m.ACK)
    pair.hear(m.Settle)
    pair.say(m.Settled(2, [[2, 0, ErrorCode.LEASE_LOST]]))
    assert "another consumer may have" in str(pair.done[ticket])


def test_unit_is_committed_with_what_it_is_known_to_hold() -> None:
    """G20: A commit states the number of its steps, so a unit is never committed in part."""
    working = Working()
    pair = working.pair
    put = working.put(None, None)
    working.stamped(count=2)
    assert pair.done[put] == [PutResult(Uid(NAME, 500)), PutResult(Uid(NAME, 501))]
    ack = working.ack()
    settle = pair.hear(m.Settle)
    assert (settle.action, settle.unit) == (m.ACK, working.unit.number)
    pair.say(m.Settled(settle.settle_id))
    assert pair.done[ack] is None
    ticket = working.commit()
    pair.answer_open()
    commit = pair.hear(m.UnitCommit)
    assert commit == m.UnitCommit(7, 1, 0, working.unit.number, 2, 1)
    pair.say(m.Committed(7, 1))
    assert pair.done[ticket] == PutResult(None)
    refused_with(ErrorCode.UNIT_UNKNOWN, working.put)


def test_commit_waits_for_steps_that_are_under_way() -> None:
    working = Working()
    pair = working.pair
    first, second = working.put(), working.put(None, None)
    ack = working.ack()
    ticket = working.commit()
    refused_with(ErrorCode.UNIT_UNKNOWN, working.put)  # The unit is being committed.
    refused_with(ErrorCode.UNIT_UNKNOWN, working.ack)
    assert pair.core.outstanding == 2
    working.stamped(refused=[[0, ErrorCode.QUEUE_FULL, "full"]])
    assert [type(found) for found in pair.done[first]] == [QueueFull]
    settle = pair.hear(m.Settle)
    pair.say(m.Settled(settle.settle_id, [[settle.settle_id, 0, ErrorCode.LEASE_LOST]]))
    assert working.code_of(ack) == ErrorCode.LEASE_LOST
    assert not pair.hear_all(m.UnitCommit)
    working.stamped(count=2)
    assert len(pair.done[second]) == 2
    pair.answer_open()
    commit = pair.hear(m.UnitCommit)
    assert (commit.puts, commit.gets) == (2, 0)
    assert ticket not in pair.done


def test_request_that_is_refused_as_a_whole_does_not_count() -> None:
    working = Working()
    ticket = working.put()
    request = working.pair.hear(m.UnitPut)
    working.pair.say(m.Error(request.request_id, ErrorCode.UNIT_UNKNOWN, 2, 0, "too old"))
    assert working.code_of(ticket) == ErrorCode.UNIT_UNKNOWN
    working.commit()
    working.pair.answer_open()
    assert working.pair.hear(m.UnitCommit).puts == 0


def test_message_that_is_acknowledged_twice_counts_once() -> None:
    working = Working()
    for _ in range(2):
        working.ack(5)
        working.pair.say(m.Settled(working.pair.hear(m.Settle).settle_id))
    working.commit()
    working.pair.answer_open()
    assert working.pair.hear(m.UnitCommit).gets == 1


def test_commits_and_puts_are_numbered_together() -> None:
    working = Working()
    pair = working.pair
    before = pair.put(b"before")
    ticket = working.commit()
    after = pair.put(b"after")
    pair.answer_open()
    sent = [message for message in pair.pump() if type(message) in (m.Put, m.UnitCommit)]
    ids = [getattr(message, "seq_id", 0) or message.first_id for message in sent]
    assert sorted(ids) == [1, 2, 3]
    assert ids == sorted(ids)
    pair.say(m.Committed(7, 3))
    assert {before, ticket, after} <= set(pair.done)


def test_put_that_waits_does_not_join_the_commit_behind_it() -> None:
    working = Working()
    pair = working.pair
    pair.put(b"a")
    pair.put(b"b")
    pair.pump()
    working.commit()
    pair.answer_open()
    assert len(pair.hear(m.Put).records) == 2
    assert pair.hear(m.UnitCommit).seq_id == 3


def test_connection_that_is_lost_backs_out() -> None:
    working = Working()
    pair = working.pair
    put, ack = working.put(), working.ack()
    pair.pump()
    unsent_ack = working.ack(2)
    ticket = working.commit()
    pair.cut()
    for lost in (put, ack, unsent_ack, ticket):
        assert working.code_of(lost) == ErrorCode.UNIT_BACKED_OUT
    for ask in (working.put, working.ack, working.commit):
        refused_with(ErrorCode.UNIT_BACKED_OUT, ask)
    pair.connect()
    assert not [x for x in pair.pump() if type(x) is not m.ProducerOpen], "no message is repeated"
    assert pair.core.outstanding == 0


def test_commit_that_waits_for_its_stream_is_backed_out_with_the_connection() -> None:
    working = Working()
    put = working.pair.put(b"x")
    ticket = working.commit()
    working.pair.hear(m.ProducerOpen)
    working.pair.cut()
    assert working.code_of(ticket) == ErrorCode.UNIT_BACKED_OUT
    working.pair.opened()
    assert working.pair.hear(m.Put).first_id == 1
    assert put not in working.pair.done


@pytest.mark.parametrize("answer", ["held", "refused", "unknown"])
def test_commit_that_was_sent_is_sent_again(answer: str) -> None:
    working = Working()
    pair = working.pair
    working.put()
    working.stamped()
    ticket = working.commit()
    pair.answer_open()
    first = pair.hear(m.UnitCommit)
    pair.cut()
    assert ticket not in pair.done
    if answer == "held":
        assert pair.opened(1).hear_all(m.UnitCommit) == []
        assert pair.done[ticket] == PutResult(None, resent=True)
        refused_with(ErrorCode.UNIT_UNKNOWN, working.put)
        return
    refusal = [1, ErrorCode.UNIT_BACKED_OUT, "backed out"]
    if answer == "refused":
        pair.opened(1, (), [refusal])
    else:
        pair.opened()
        assert pair.hear(m.UnitCommit) == first
        pair.say(m.Committed(7, 1, [refusal]))
    assert working.code_of(ticket) == ErrorCode.UNIT_BACKED_OUT
    refused_with(ErrorCode.UNIT_BACKED_OUT, working.put)


def test_commit_that_is_refused_for_now_leaves_the_unit_open() -> None:
    working = Working()
    pair = working.pair
    ticket = working.commit()
    pair.answer_open()
    pair.hear(m.UnitCommit)
    pair.say(m.Committed(7, 1, [[1, ErrorCode.STORE_FULL, "full"]]))
    assert working.code_of(ticket) == ErrorCode.STORE_FULL
    again = working.commit()
    assert pair.hear(m.UnitCommit).seq_id == 2
    pair.say(m.Committed(7, 2))
    assert pair.done[again] == PutResult(None)


@pytest.mark.parametrize("code", [ErrorCode.UNIT_INCOMPLETE, ErrorCode.UNIT_BACKED_OUT])
def test_commit_that_is_refused_for_good_ends_the_unit(code: ErrorCode) -> None:
    working = Working()
    ticket = working.commit()
    working.pair.answer_open()
    working.pair.hear(m.UnitCommit)
    working.pair.say(m.Committed(7, 1, [[1, code, "gone"]]))
    assert working.code_of(ticket) == code
    refused_with(ErrorCode.UNIT_BACKED_OUT, working.put)


def test_commit_of_a_stream_that_is_forgotten_has_an_unknown_outcome() -> None:
    working = Working()
    ticket = working.commit()
    working.pair.answer_open()
    working.pair.hear(m.UnitCommit)
    working.pair.cut().connect()
    request = working.pair.hear(m.ProducerOpen)
    working.pair.say(m.Error(request.request_id, ErrorCode.PRODUCER_UNKNOWN, 2))
    assert isinstance(working.pair.done[ticket], UnknownOutcome)
    refused_with(ErrorCode.UNIT_UNKNOWN, working.put)


def test_backout_ends_the_unit_for_its_caller_at_once() -> None:
    working = Working()
    ticket = working.pair.core.back_out(working.unit)
    refused_with(ErrorCode.UNIT_UNKNOWN, working.put)
    request = working.pair.hear(m.UnitBackout)
    assert request.unit == working.unit.number
    working.pair.say(m.Ok(request.request_id, [0, 0]))
    assert working.pair.done[ticket] == [0, 0]


def test_backout_is_done_when_the_connection_is_lost() -> None:
    working = Working()
    ticket = working.pair.core.back_out(working.unit)
    working.pair.pump()
    working.pair.cut()
    assert working.pair.done[ticket] is None
    working.pair.connect()
    assert not working.pair.hear_all(m.UnitBackout)


def test_backout_that_nobody_waits_for_is_still_sent() -> None:
    working = Working()
    working.pair.core.abandon(working.pair.core.back_out(working.unit))
    assert working.pair.hear(m.UnitBackout).unit == working.unit.number


def test_numbers_are_not_used_again() -> None:
    working = Working()
    first = working.unit.number
    working.pair.cut().connect()
    assert working.begin().number == first + 1


def test_unit_that_is_being_begun_is_begun_on_the_next_connection() -> None:
    pair = Scripted().connect()
    ticket = pair.core.begin_unit()
    first = pair.hear(m.UnitBegin)
    pair.cut().connect()
    request = pair.hear(m.UnitBegin)
    assert request.unit == first.unit
    pair.say(m.Ok(request.request_id))
    assert pair.done[ticket].is_begun


def test_unit_that_is_refused_is_none() -> None:
    pair = Scripted().connect()
    ticket = pair.core.begin_unit()
    request = pair.hear(m.UnitBegin)
    pair.say(m.Error(request.request_id, ErrorCode.UNITS_EXHAUSTED, 2, 0, "100 are open"))
    assert pair.done[ticket].code == ErrorCode.UNITS_EXHAUSTED


def test_unit_that_nobody_waits_for_any_more_is_backed_out() -> None:
    pair = Scripted().connect()
    ticket = pair.core.begin_unit()
    request = pair.hear(m.UnitBegin)
    pair.core.abandon(ticket)
    pair.say(m.Ok(request.request_id))
    assert pair.hear(m.UnitBackout).unit == request.unit
    assert ticket not in pair.done
    waiting = pair.cut().core.begin_unit()
    pair.core.abandon(waiting)
    assert pair.connect().hear_all(m.UnitBegin) == []


def test_put_that_nobody_waits_for_counts() -> None:
    """The commit must count a put even if its caller no longer waits for the result."""
    working = Working()
    ticket = working.put()
    working.pair.pump()
    working.pair.core.abandon(ticket)
    working.commit()
    working.stamped()
    working.pair.answer_open()
    assert working.pair.hear(m.UnitCommit).puts == 1


def test_put_that_was_not_sent_is_not_waited_for() -> None:
    working = Working()
    working.pair.core.abandon(working.put())
    working.commit()
    working.pair.answer_open()
    assert working.pair.hear(m.UnitCommit).puts == 0


def test_get_of_a_unit_ends_with_it() -> None:
    working = Working()
    ticket = working.pair.core.request(0, m.Get, "Q", 1, 60_000, unit=working.unit)
    working.pair.hear(m.Get)
    working.pair.cut()
    assert working.code_of(ticket) == ErrorCode.UNIT_BACKED_OUT
    working.pair.connect()
    assert working.pair.hear_all(m.Get) == []


def test_ack_of_another_store_is_no_step() -> None:
    working = Working()
    foreign = leased(1)._replace(home=leased(1).home._replace(store_id=b"t" * 16))
    ticket = working.pair.core.settle(foreign, m.ACK, unit=working.unit)
    working.pair.pump()
    assert working.code_of(ticket) == ErrorCode.LEASE_LOST
    working.commit()
    working.pair.answer_open()
    assert working.pair.hear(m.UnitCommit).gets == 0


def test_end_of_the_client_ends_units() -> None:
    working = Working()
    put = working.put()
    ticket = working.commit()
    working.pair.say(m.Goaway(ErrorCode.CANCELLED, "closed by an operator"))
    assert working.code_of(ticket) == working.code_of(put) == ErrorCode.CANCELLED
    assert working.pair.core.outstanding == 0
    refused_with(ErrorCode.CANCELLED, working.put)


@pytest.mark.parametrize("value", [None, [], [[]], [[[1, 2]], []], [[], [[0, 1, -1]]], {}])
def test_answer_of_another_form_ends_the_connection(value: Any) -> None:
    working = Working()
    ticket = working.put()
    working.pair.say(m.Ok(working.pair.hear(m.UnitPut).request_id, value))
    assert "UnitPut" in working.pair.latest(Failed).error.text
    assert ticket in working.pair.done


def test_outcomes_are_those_of_each_record() -> None:
    own = Uid("A", 7)
    value = [[[1, 303, "full"], [9, 303, "beyond"]], [[0, 50, 1], [3, 60, 2**32 - 1]]]
    first, second, third, fourth = outcomes(value, [None, None, own, None], NAME)
    assert (first, third, fourth) == (
        PutResult(Uid(NAME, 50)),
        PutResult(own),
        PutResult(Uid(NAME, 60)),
    )
    assert isinstance(second, RequestError)
    with pytest.raises(FieldInvalid):
        outcomes(None, [None], NAME)


class Cut:
    """A client with one unit of work, a keeper, and a connection that is cut at a given byte."""

    def __init__(self, *, sent_max: int = 2**30, heard_max: int = 2**30) -> None:
        self.keeper = Keeper()
        self.keeper.ready["IN"] = [b"in"]
        self.core = ClientCore("test", PRODUCER)
        self.results: dict[int, Any] = {}
        self.left = [sent_max, heard_max]  # bytes to and from the keeper until the cut
        self.cuts = 0
        self._connect()

    def _connect(self) -> None:
        self.far = Connection(Side.LISTENER)
        self.core.connected(0)

    def _cut(self) -> None:
        self.cuts += 1
        self.left = [2**30, 2**30]
        self.core.connection_lost()
        self.keeper.cut()
        self._connect()

    def run(self) -> None:
        """Lets both sides exchange messages until both are idle."""
        while data := self.core.data_to_send(0):
            for byte in data:
                if not self._carry(bytes([byte])):
                    self._cut()
                    break
        self._note()

    def _carry(self, byte: bytes) -> bool:
        """Carries a byte to the keeper, and the answers back. Returns False after the cut."""
        self.left[0] -= 1
        if self.left[0] < 0:
            return False
        for message, _ in self.far.receive(byte, 0):
            answers = self.keeper.answer(message)
            if type(message) is m.Hello:
                answers = [m.Welcome(1, NAME, STORE, 1)]
            for data in [self.far.send(answer) for answer in answers]:
                part = data[: max(self.left[1], 0)]
                self.core.receive(part, 0)
                self._note()
                self.left[1] -= len(data)
                if len(part) < len(data):
                    return False
        return True

    def _note(self) -> None:
        for event in self.core.events():
            if isinstance(event, RESULTS):
                ticket, result = event
                assert ticket not in self.results, "a ticket has two results"
                self.results[ticket] = result

    def result(self, ticket: int) -> Any:
        self.run()
        return self.results[ticket]


def work(world: Cut) -> bool:
    """Moves a message from IN to OUT. Returns whether the client reported a commit."""
    core = world.core
    try:
        unit = world.result(core.begin_unit())
        found = sound(world.result(core.request(0, m.Get, "IN", unit=unit)))
        put = core.unit_put(unit, "OUT", [(records.encode(records.Fields(found[0].body)), None)])
        for ticket in (core.settle(found[0], m.ACK, unit=unit), put, core.commit(unit)):
            sound(world.result(ticket))
    except RequestError as error:
        code = error.code
    else:
        return True
    assert code == ErrorCode.UNIT_BACKED_OUT
    return False


def sound(result: Any) -> Any:
    if isinstance(result, RequestError):
        raise result
    return result


@pytest.mark.parametrize("side", ["sent_max", "heard_max"])
def test_cut_at_any_byte_leaves_all_or_nothing(side: str) -> None:
    """G20: Wherever the cut is, the unit is applied once or not at all, and the report is true."""
    outcomes_seen, size = set(), 0
    while True:
        world = Cut(**{side: size})
        was_done = work(world)
        world.run()
        done = world.keeper.ready == {"IN": [], "OUT": [b"in"]}
        undone = world.keeper.ready == {"IN": [b"in"]}
        assert (done, undone) == (was_done, not was_done), f"cut at {size}"
        assert len(world.keeper.committed) == was_done
        assert world.core.outstanding == 0
        outcomes_seen.add((was_done, world.cuts > 0, len(world.keeper.commits)))
        if not world.cuts:
            break
        size += 1
    assert {was_done for was_done, was_cut, _ in outcomes_seen if was_cut} == {True, False}


def test_unit_knows_whether_it_is_over_and_undone() -> None:
    """E24: The handles of groups need this state to restore their positions."""
    committed, backed_out, lost = Working(), Working(), Working()
    committed.commit()
    assert not committed.unit.is_over
    committed.pair.answer_open()
    commit = committed.pair.hear(m.UnitCommit)
    committed.pair.say(m.Committed(7, commit.seq_id))
    backed_out.pair.core.back_out(backed_out.unit)
    lost.pair.cut()
    found = [(x.unit.is_over, x.unit.is_undone) for x in (committed, backed_out, lost)]
    assert found == [(True, False), (True, True), (True, True)]


def test_unit_whose_commit_is_refused_for_good_is_undone() -> None:
    working = Working()
    working.commit()
    working.pair.answer_open()
    commit = working.pair.hear(m.UnitCommit)
    refused = [[commit.seq_id, int(ErrorCode.UNIT_INCOMPLETE), ""]]
    working.pair.say(m.Committed(7, commit.seq_id, refused))
    assert working.unit.is_undone
