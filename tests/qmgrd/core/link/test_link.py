"""Tests of the sending end of a link, one turn at a time (docs/behaviour.md, B)."""

import functools
import json
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.states import Side
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.system import EVENTS
from qmgrd.core.context.context import Dial, Outcome
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.peer import Peer
from tests.qmgrd.core.harness import STORE_ID, AnyStore, Client, Manager

STREAM = STORE_ID + (2).to_bytes(8, "big")  # The transmission queue is the second queue.
NYC_STORE = b"N" * 16


class Nyc:
    """The queue manager that answers when the link dials."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.connections = 100
        self.dials: list[Dial] = []
        self.goaway: m.Goaway | None = None
        self.stream = 0
        self.came: list[int] = []  # ids that arrived over this connection

    def turn(self, ms: int = 0) -> list[Any]:
        """Runs a turn; returns the messages that the link sent."""
        return self.take(self.manager.turn(ms))

    def take(self, outcome: Outcome) -> list[Any]:
        self.dials += [effect for effect in outcome.effects if isinstance(effect, Dial)]
        self.goaway = next((x for number, x in outcome.closes if number == self.connections), None)
        sent = [x for number, x in outcome.sends if number == self.connections]
        self.came += ids(sent)
        return sent

    def taken(self, message: m.Committed | m.Blocked) -> int:
        """Returns the number of records that the peer reports as received over this connection."""
        if isinstance(message, m.Blocked):
            return len(self.came)
        last = message.commit_id
        return next((n for n, seq_id in enumerate(self.came) if seq_id > last), len(self.came))

    @property
    def dial(self) -> Dial | None:
        """Returns the open dial."""
        link = self.manager.turns.broker.catalogue.links.get("NYC")
        return link.paths[0].dial if link else None

    def answer(
        self,
        name: str = "NYC",
        store_id: bytes = NYC_STORE,
        message_max_bytes: int = 1 << 20,
        dial: Dial | None = None,
    ) -> list[Any]:
        """Completes the dial and the handshake; returns the link's opening request."""
        dial = dial or self.dial
        self.connections += 1
        self.came = []
        self.peer = Peer(
            self.connections,
            self.manager.turns.intake,
            self.manager.config.limits,
            self.manager._welcome,
            self.manager.tokens,
            0,
            dial=dial or Dial("NYC", "h:1", 0),
        )
        self.wire = Connection(Side.LISTENER)
        ((hello, _),) = self.wire.receive(self.peer.hello(), 0)
        assert isinstance(hello, m.Hello)
        assert hello.name == "QM1"
        welcome = m.Welcome(1, name, store_id, 1, message_max_bytes=message_max_bytes)
        return self.say(welcome)

    def say(self, *messages: Any) -> list[Any]:
        for message in messages:
            if type(message) in (m.Committed, m.Blocked) and not message.taken:
                message = message._replace(taken=self.taken(message))
            self.peer.receive(self.wire.send(message), 0)
        return self.turn()

    def up(self, commit_id: int = 0, trailer: bytes | None = None, window: int = 4096) -> Any:
        """Answers the dial and the opening with the given state; returns the link's messages."""
        (opening,) = self.answer()
        assert type(opening) is m.LinkOpen
        assert opening.stream_id == STREAM
        self.stream += 1
        value = [self.stream, commit_id, [], trailer, window, 1, 0, b""]
        return self.say(m.Ok(opening.request_id, value))

    def hang_up(self) -> None:
        self.peer.closed("cut")
        self.turn()


def ids(sent: list[Any]) -> list[int]:
    puts = [x for x in sent if type(x) is m.Put]
    return [x.first_id + i for x in puts for i in range(len(x.records))]


def trailer_of(sent: list[Any], seq_id: int) -> bytes:
    for put in sent:
        if put.first_id <= seq_id < put.first_id + len(put.records):
            data: bytes = put.records[seq_id - put.first_id]
            return data[-8 - data[4] :]
    raise AssertionError(seq_id)


@pytest.fixture
def nyc(app: Client) -> Nyc:
    """A link to NYC that is dialling, and a remote queue F@NYC."""
    nyc = Nyc(app.manager)
    app.send(m.LinkCreate(1_000, "NYC", {"addresses": ["h:1", "h:2"]}))
    nyc.turn()
    app.ask(m.QueueCreate, "F@NYC")
    app.ask(m.QueueCreate, "G@NYC")
    app.hear()
    return nyc


def state(app: Client) -> str:
    return str(app.ask(m.LinkShow, "NYC")["state"])


def test_new_link_dials_at_once(nyc: Nyc) -> None:
    assert nyc.dials == [Dial("NYC", "h:1", 1)]


def test_messages_keep_their_ids_and_go_in_order(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2", priority=1)
    app.put("G@NYC", b"3", priority=9)
    sent = nyc.up()
    assert [(x.first_id, x.queue, len(x.records)) for x in sent] == [(1, "F", 2), (3, "G", 1)]
    assert records.decode(sent[1].records[0]).body == b"3"
    assert state(app) == "up"


def test_put_goes_out_in_its_own_turn_once_the_link_is_up(app: Client, nyc: Nyc) -> None:
    assert nyc.up() == []
    app.put("F@NYC", b"1")
    assert ids(nyc.take(app.manager.last)) == [1]


def test_commit_deletes_what_it_covers_B9(store: AnyStore, app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2", b"3")
    sent = nyc.up()
    nyc.say(m.Committed(nyc.stream, 2))
    assert app.bodies("@NYC") == [b"3"]
    row = app.ask(m.LinkShow, "NYC")
    assert (row["waiting"], row["commit_id"], row["transferred"], row["in_flight"]) == (1, 2, 2, 1)
    app.manager.crash()
    nyc.turn()
    (opening,) = nyc.answer()
    assert (opening.base_id, opening.next_id) == (1, 4)
    assert ids(nyc.say(m.Ok(1, [1, 2, [], trailer_of(sent, 2), 4096, 1, 0, b""]))) == [3]


def test_late_or_repeated_commit_changes_nothing_B15(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2", b"3")
    nyc.up()
    nyc.say(m.Committed(nyc.stream, 2), m.Committed(nyc.stream, 1), m.Committed(nyc.stream, 2))
    assert app.bodies("@NYC") == [b"3"]


@pytest.mark.parametrize("commit_id", [4, 2**62])
def test_commit_of_what_was_never_sent_breaks_the_protocol_B28(
    app: Client, nyc: Nyc, commit_id: int
) -> None:
    """Such a commit deletes nothing."""
    app.put("F@NYC", b"1", b"2", b"3")
    nyc.up()
    nyc.say(m.Committed(nyc.stream, commit_id))
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.COMMIT_OUT_OF_RANGE
    assert len(app.bodies("@NYC")) == 3


def test_commit_of_what_is_assigned_but_was_not_sent_breaks_the_protocol_B28(
    app: Client, nyc: Nyc
) -> None:
    app.put("F@NYC", *[b"x"] * 25)
    assert ids(nyc.up(window=10))[-1] == 10
    nyc.say(m.Committed(nyc.stream, 11))
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.COMMIT_OUT_OF_RANGE
    assert len(app.bodies("@NYC")) == 25


def test_same_ids_are_sent_again_after_a_cut_B2(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2", b"3")
    first = nyc.up()
    nyc.hang_up()
    nyc.turn(1_000)
    again = nyc.up()
    assert [x.records for x in again] == [x.records for x in first]
    assert app.ask(m.LinkShow, "NYC")["resent"] == 3


def test_reconnect_deletes_what_the_peer_holds_without_sending_it_B13(
    app: Client, nyc: Nyc
) -> None:
    app.put("F@NYC", *[b"x"] * 10)
    sent = nyc.up()
    nyc.hang_up()
    nyc.turn(1_000)
    assert ids(nyc.up(commit_id=7, trailer=trailer_of(sent, 7))) == [8, 9, 10]


def test_window_bounds_what_is_in_flight_B26(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", *[b"x"] * 25)
    sent = nyc.up(window=10)
    assert ids(sent) == list(range(1, 11))
    assert sent[-1] == m.CommitAsk(nyc.stream)
    assert nyc.turn() == []
    sent = nyc.say(m.Committed(nyc.stream, 4, held=[[5, 6, 0]], taken=10))
    assert ids(sent) == [11, 12, 13, 14]
    assert sent[-1] == m.CommitAsk(nyc.stream)
    assert nyc.say(m.Committed(nyc.stream, 4)) == []  # The link asks only once.
    assert ids(nyc.say(m.Committed(nyc.stream, 14))) == list(range(15, 25))


def test_commit_is_requested_again_after_a_block(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", *[b"x"] * 25)
    nyc.up(window=10)
    nyc.say(m.Blocked(nyc.stream, 1, ErrorCode.QUEUE_FULL, 500))
    nyc.say(m.Committed(nyc.stream, 0, held=[[2, 9]]))
    sent = nyc.turn(500)
    assert ids(sent) == [1]
    assert sent[-1] == m.CommitAsk(nyc.stream)


def test_peer_that_knows_no_commit_ask_is_waited_for(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", *[b"x"] * 25)
    assert nyc.up(window=10)[-1] == m.CommitAsk(nyc.stream)
    assert nyc.say(m.Error(nyc.stream, ErrorCode.OPERATION_UNKNOWN, 3)) == []
    assert app.ask(m.LinkShow, "NYC")["state"] == "up"
    assert ids(nyc.say(m.Committed(nyc.stream, 10))) == list(range(11, 21))


def test_bytes_in_flight_are_bounded_too() -> None:
    manager = Manager(link={"window_bytes": "4 KiB"})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    nyc = Nyc(manager)
    app.send(m.LinkCreate(1_000, "NYC", {"addresses": ["h:1"]}))
    nyc.turn()
    app.ask(m.QueueCreate, "F@NYC")
    app.put("F@NYC", *[bytes(1_500)] * 10)
    sent = nyc.up()
    assert ids(sent) == [1, 2, 3]
    assert sent[-1] == m.CommitAsk(nyc.stream)
    assert ids(nyc.say(m.Committed(nyc.stream, 3))) == [4, 5, 6]


# -- errors


def test_peer_of_another_name_is_refused_for_good(app: Client, nyc: Nyc) -> None:
    nyc.answer(name="BOS")
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.PEER_WRONG
    row = app.ask(m.LinkShow, "NYC")
    assert row["state"] == "refused"
    assert row["error"] == (
        "PEER_WRONG: the queue manager at h:1 is BOS, not NYC; correct the address of the link"
    )
    nyc.dials.clear()
    nyc.turn(10**6)
    assert nyc.dials == []


def test_peer_with_another_store_is_refused(store: AnyStore, app: Client, nyc: Nyc) -> None:
    nyc.up()
    app.manager.crash()
    nyc.turn()
    nyc.answer(store_id=b"X" * 16)
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.PEER_STORE_CHANGED


def test_peer_whose_pinned_store_id_rotted_is_refused(
    store: AnyStore, app: Client, nyc: Nyc
) -> None:
    nyc.up()
    key = keys.SPACE_PEER + b"NYC"
    tx = app.manager.store.begin()
    tx.put(key, b"!" + (tx.get(key) or b"")[1:])
    app.manager.store.commit()
    app.manager.crash()
    nyc.turn()
    nyc.answer()
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.STORE_DAMAGED
    assert "the store id of queue manager NYC: its checksum is wrong" in nyc.goaway.text


def test_peer_that_holds_more_than_was_assigned_is_refused_B21(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    nyc.up(commit_id=2, trailer=b"x")
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["waiting"]) == ("refused", 1)
    assert "RESTORED" in row["error"]


def test_peer_that_holds_another_message_is_refused_B21(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2")
    nyc.up(commit_id=1, trailer=b"another")
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["waiting"]) == ("refused", 2)
    assert "different messages" in row["error"]


def test_peer_that_lost_what_it_committed_is_told_where_to_go_on_B22(app: Client, nyc: Nyc) -> None:
    """The link reports a possible loss, and continues."""
    app.put("F@NYC", b"1", b"2", b"3")
    sent = nyc.up()
    nyc.say(m.Committed(nyc.stream, 2))
    nyc.hang_up()
    nyc.turn(1_000)
    (opening,) = nyc.answer()
    assert (opening.base_id, opening.lowest_id, opening.next_id) == (1, 3, 4)
    assert ids(sent) == [1, 2, 3]
    assert ids(nyc.say(m.Ok(1, [1, 2, [], None, 4_096, 2, 2, b""]))) == [3]
    assert state(app) == "up"
    (event,) = [json.loads(x.body) for x in app.get(EVENTS, 9) if b"restored" in x.body]
    assert (event["event"], event["link"], event["lost"]) == ("link peer restored", "NYC", 2)


def test_peer_that_forgot_and_does_not_go_on_is_refused_B22(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2")
    nyc.up()
    nyc.say(m.Committed(nyc.stream, 2))
    nyc.hang_up()
    nyc.turn(1_000)
    nyc.up(commit_id=1)
    row = app.ask(m.LinkShow, "NYC")
    assert row["state"] == "refused"
    assert "PEER_RESTORED" in row["error"]
    assert "and has lost the messages in between" in row["error"]


def test_peer_that_reports_more_lost_than_it_committed_is_refused(app: Client, nyc: Nyc) -> None:
    """Otherwise, the sum of the reported losses could become too large to store."""
    app.put("F@NYC", b"1", b"2")
    nyc.up()
    nyc.say(m.Committed(nyc.stream, 2))
    nyc.hang_up()
    nyc.turn(1_000)
    nyc.answer()
    nyc.say(m.Ok(1, [1, 2, [], None, 4_096, 2, 3, b""]))
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["lost"]) == ("refused", 0)
    assert "is 3, but the peer has committed 2 messages" in row["error"]


def test_peer_cannot_block_a_link_for_longer_than_an_hour(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    nyc.up()
    nyc.say(m.Blocked(nyc.stream, 1, ErrorCode.QUEUE_FULL, 2**63 - 1))
    assert state(app) == "blocked"
    assert ids(nyc.turn(3_600_000)) == [1]


@pytest.mark.parametrize("value", [None, [], [1, 2], ["1", 0, [], None, 9], [1, 0, ["x"], None, 9]])
def test_invalid_answer_is_refused(app: Client, nyc: Nyc, value: Any) -> None:
    nyc.answer()
    nyc.say(m.Ok(1, value))
    assert state(app) == "refused"


def test_refusal_by_the_peer_is_taken_by_its_class(app: Client, nyc: Nyc) -> None:
    nyc.answer()
    nyc.say(m.Error(1, ErrorCode.STORE_FULL, 1, 0, "full"))
    assert state(app) == "waiting"
    nyc.turn(1_000)
    nyc.answer()
    nyc.say(m.Error(1, ErrorCode.NOT_AUTHORIZED, 2, 0, "no"))
    assert state(app) == "refused"
    app.ask(m.LinkStart, "NYC")
    assert state(app) == "dialling"


def test_blocked_link_sends_again_after_a_while(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2", b"3")
    nyc.up()
    blocked = m.Blocked(nyc.stream, 2, ErrorCode.QUEUE_FULL, 500, "queue F holds 1")
    assert nyc.say(m.Committed(nyc.stream, 1), blocked) == []
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["error"]) == ("blocked", "QUEUE_FULL: NYC reports: queue F holds 1")
    assert nyc.turn(499) == []
    assert ids(nyc.turn(1)) == [2, 3]
    assert state(app) == "up"


def test_link_takes_nothing_from_an_inhibited_transmission_queue(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    assert ids(nyc.up()) == [1]
    app.ask(m.QueueAlter, "@NYC", {"get_inhibit": True})
    app.put("F@NYC", b"2")
    assert nyc.turn() == []
    assert nyc.say(m.Committed(nyc.stream, 1)) == []
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["waiting"], row["transferred"]) == ("up", 1, 1)
    assert row["error"].startswith("GET_INHIBITED: gets are inhibited on queue @NYC; set its")
    app.send(m.QueueAlter(1_001, "@NYC", {"get_inhibit": False}))
    assert ids(nyc.turn()) == [2]
    assert app.ask(m.LinkShow, "NYC")["error"] == ""


# -- dialling


def test_start_of_a_link_that_is_on_its_way_changes_nothing(app: Client, nyc: Nyc) -> None:

    def start(expected: str) -> None:
        before = app.ask(m.LinkShow, "NYC")
        assert before["state"] == expected
        assert app.ask(m.LinkStart, "NYC") == before
        nyc.turn()
        assert len(nyc.dials) == 1

    start("dialling")
    (opening,) = nyc.answer()
    start("opening")
    nyc.stream += 1
    nyc.say(m.Ok(opening.request_id, [nyc.stream, 0, [], None, 4096, 1, 0, b""]))
    start("up")
    app.put("F@NYC", b"1")


def test_start_of_a_blocked_link_sends_at_once(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    nyc.up()
    nyc.say(m.Blocked(nyc.stream, 1, ErrorCode.QUEUE_UNKNOWN, 10_000, "no such queue"))
    assert state(app) == "blocked"
    app.send(m.LinkStart(1_001, "NYC"))
    assert ids(nyc.turn()) == [1]
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["error"]) == ("up", "QUEUE_UNKNOWN: NYC reports: no such queue")
    nyc.say(m.Committed(nyc.stream, 1))
    assert app.ask(m.LinkShow, "NYC")["error"] == ""


def test_failed_dials_wait_longer_and_go_round_the_addresses(app: Client, nyc: Nyc) -> None:
    intake = app.manager.turns.intake
    waits = []
    for _ in range(12):
        failed = functools.partial(Broker.dial_failed, dial=nyc.dials[-1], why="refused")
        intake.event(0, failed)
        nyc.turn()
        dialled, waited = len(nyc.dials), 0
        while len(nyc.dials) == dialled:
            nyc.turn(10)
            waited += 10
        waits.append(waited)
    assert {dial.address for dial in nyc.dials} == {"h:1", "h:2"}
    assert waits[0] <= 200
    assert 15_000 <= waits[-1] <= 30_000
    assert state(app) == "dialling"


def test_dial_that_failed_late_does_not_harm_a_link_that_is_up(app: Client, nyc: Nyc) -> None:
    """The second of two dials has succeeded."""
    app.ask(m.LinkStop, "NYC")
    app.ask(m.LinkStart, "NYC")
    nyc.up()
    first = nyc.dials[0]
    app.manager.turns.intake.event(0, lambda broker: broker.dial_failed(first, "timeout"))
    nyc.turn()
    assert state(app) == "up"
    app.put("F@NYC", b"1")
    assert ids(nyc.take(app.manager.last)) == [1]


def test_unexpected_connection_is_closed(app: Client, nyc: Nyc) -> None:
    nyc.up()
    nyc.answer()
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.CANCELLED
    assert state(app) == "up"


def test_stopped_link_hangs_up_and_does_not_dial(app: Client, nyc: Nyc) -> None:
    nyc.up()
    app.send(m.LinkStop(500, "NYC"))
    nyc.turn()
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.CANCELLED
    nyc.peer.closed("gone")
    nyc.dials.clear()
    nyc.turn(10**6)
    assert nyc.dials == []
    app.put("F@NYC", b"waits")
    assert app.bodies("@NYC") == [b"waits"]


def test_dial_of_a_link_that_was_deleted_meanwhile_is_closed(app: Client, nyc: Nyc) -> None:
    for queue in ("F@NYC", "G@NYC"):
        app.ask(m.QueueDelete, queue)
    app.ask(m.LinkDelete, "NYC")
    nyc.answer()
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.CANCELLED


def test_connection_for_an_earlier_link_of_that_name_is_closed(app: Client, nyc: Nyc) -> None:
    """The connection may lead to another manager, whose errors must not stop the new link."""
    earlier = nyc.dials[0]
    for queue in ("F@NYC", "G@NYC"):
        app.ask(m.QueueDelete, queue)
    app.ask(m.LinkDelete, "NYC")
    app.ask(m.LinkCreate, "NYC", {"addresses": ["h:3"]})
    nyc.answer(name="BOS", dial=earlier)
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.CANCELLED
    app.manager.turns.intake.event(0, lambda broker: broker.dial_failed(earlier, "refused"))
    nyc.turn()
    assert state(app) == "dialling"
    nyc.answer()
    assert state(app) == "opening"


def test_long_backlog_goes_out_turn_after_turn_without_waiting_for_a_commit(
    app: Client, nyc: Nyc
) -> None:
    for _ in range(3):
        app.put("F@NYC", *[b"x"] * 1_000)
    assert ids(nyc.up()) == list(range(1, 1_001))
    assert ids(nyc.turn()) == list(range(1_001, 2_001))
    assert ids(nyc.turn()) == list(range(2_001, 3_001))


def test_commit_of_what_is_sent_again_leaves_the_put_window_of_the_peer_whole(
    app: Client, nyc: Nyc
) -> None:
    """Seed 7501: A commit covers the peer's stored copy. The second copy may still be unread."""
    for _ in range(9):
        app.put("F@NYC", *[b"x"] * 1_000)
    sent = [*nyc.up(), *nyc.turn(), *nyc.turn(), *nyc.turn(), *nyc.turn()]
    nyc.say(m.Blocked(nyc.stream, 1, ErrorCode.QUEUE_FULL, 500))
    again = [*nyc.turn(500), *nyc.turn(), *nyc.turn()]
    fresh = nyc.say(m.Committed(nyc.stream, ids(sent)[-1], taken=len(ids(sent))))
    while more := nyc.turn():
        fresh += more
    assert len(ids(again)) >= 1_000
    assert len(ids(fresh)) >= 1_000
    assert len(ids(again)) + len(ids(fresh)) <= m.Welcome._field_defaults["put_window_messages"]


def test_commit_of_an_earlier_connection_is_not_obeyed(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", b"2", b"3")
    nyc.up()
    nyc.hang_up()
    nyc.turn(60_000)
    nyc.answer()
    nyc.say(m.Committed(nyc.stream or 1, 3))
    assert app.ask(m.LinkShow, "NYC")["waiting"] == 3


# -- damaged and overlong messages


def damage(manager: Manager, seq_id: int) -> None:
    """Flips a bit in the body of a message on the transmission queue."""
    queue_id = manager.queue("@NYC").id
    key = keys.message(queue_id, keys.LANE_READY, keys.PRIORITY_TOP, seq_id)
    tx = manager.store.begin()
    value = tx.get(key)
    assert value is not None
    at = entries.HEAD_BYTES + len("F") + records.HEAD_BYTES
    tx.put(key, value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
    manager.store.commit()


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_damaged_message_is_set_aside_and_its_id_given_up(
    store: AnyStore, app: Client, nyc: Nyc, damaged: int
) -> None:
    app.put("F@NYC", b"long enough", b"to lose a", b"bit of it")
    damage(app.manager, damaged)
    sent = nyc.up()
    assert ids(sent) == [1, 2, 3]
    records_ = [(x.queue, record) for x in sent for record in x.records]
    assert records_[damaged - 1] == ("", b"")
    assert all(queue == "F" and record for queue, record in records_ if record)
    row = app.show("@NYC")
    assert (row["depth"], row["damaged"]) == (2, 1)
    assert len(app.manager.scan(keys.lane(row["queue_id"], keys.LANE_DAMAGED))) == 1
    nyc.hang_up()
    nyc.turn(1_000)
    assert [x.records for x in nyc.up()] == [x.records for x in sent]
    nyc.say(m.Committed(nyc.stream, 3))
    assert app.bodies("@NYC") == []
    app.manager.crash()
    nyc.turn()
    nyc.up(commit_id=3, trailer=None if damaged == 3 else trailer_of(sent, 3))
    assert state(app.manager.connect()) == "up"


def test_peer_that_holds_what_was_damaged_here_since_is_not_refused(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"long enough", b"to lose a bit")
    sent = nyc.up()
    nyc.hang_up()
    damage(app.manager, 2)
    nyc.turn(1_000)
    nyc.up(commit_id=2, trailer=trailer_of(sent, 2))
    assert (state(app), app.bodies("@NYC")) == ("up", [])


def test_message_that_is_too_long_for_the_peer_waits_with_a_reason(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", bytes(5_000), b"3")
    nyc.answer(message_max_bytes=4_096)
    assert ids(nyc.say(m.Ok(1, [1, 0, [], None, 4_096, 1, 0, b""]))) == [1, 3]
    assert nyc.turn() == []
    row = app.ask(m.LinkShow, "NYC")
    assert row["state"] == "blocked"
    assert row["error"] == (
        "MESSAGE_TOO_LARGE: message 2 has 5024 bytes, but NYC accepts at most 4096: raise its "
        "limits.message_max_bytes"
    )
    nyc.hang_up()
    nyc.turn(1_000)
    assert ids(nyc.up()) == [1, 2, 3]
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["error"]) == ("up", "")


# -- after a refusal


def test_accepted_peer_gets_what_is_held_as_a_new_stream_B22(
    store: AnyStore, app: Client, nyc: Nyc
) -> None:
    app.put("F@NYC", b"1", b"2", b"3")
    nyc.up()
    nyc.say(m.Committed(nyc.stream, 2))
    nyc.hang_up()
    nyc.turn(1_000)
    nyc.answer(store_id=b"X" * 16)
    assert state(app) == "refused"
    app.send(m.LinkStart(1_001, "NYC", True))
    nyc.turn()
    for crash in (False, True):
        if crash:
            app.manager.crash()
            nyc.turn()
        (opening,) = nyc.answer(store_id=b"X" * 16)
        assert (opening.base_id, opening.next_id) == (3, 4)
        assert opening.stream_id[:16] == STORE_ID
        assert opening.stream_id != STREAM
        assert ids(nyc.say(m.Ok(1, [1, 2, [], None, 4_096, 1, 0, b""]))) == [3]


def test_restored_link_goes_on_once_that_is_accepted_B21(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    nyc.up(commit_id=7, trailer=b"x")
    assert state(app) == "refused"
    app.send(m.LinkStart(1_001, "NYC", True))
    nyc.turn()
    (opening,) = nyc.answer()
    assert opening.base_id == 1
    assert ids(nyc.say(m.Ok(1, [1, 0, [], None, 4_096, 1, 0, b""]))) == [1]


def test_peer_of_another_name_is_not_to_be_accepted(app: Client, nyc: Nyc) -> None:
    """Otherwise, messages that the true peer has already stored would be duplicated."""
    nyc.answer(name="BOS")
    with pytest.raises(RequestError, match=r"PEER_WRONG.* not fix; correct the address"):
        app.ask(m.LinkStart, "NYC", True)
    assert state(app) == "refused"


def test_link_that_is_not_refused_has_nothing_to_accept(app: Client, nyc: Nyc) -> None:
    nyc.up()
    with pytest.raises(RequestError, match="link NYC is up, not refused"):
        app.ask(m.LinkStart, "NYC", True)
    assert state(app) == "up"


# -- other addresses


def alter(app: Client, nyc: Nyc, *addresses: str) -> list[Any]:
    """Changes the addresses of the link; returns the messages of the link in that turn."""
    app.send(m.LinkAlter(1_001, "NYC", {"addresses": list(addresses)}))
    return nyc.turn()


def test_link_reconnects_to_its_new_addresses(app: Client, nyc: Nyc) -> None:
    """Puts in flight are sent again under their ids, as after any lost connection."""
    app.put("F@NYC", b"1", b"2", b"3")
    sent = nyc.up()
    nyc.say(m.Committed(nyc.stream, 1))
    alter(app, nyc, "h:9")
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.CANCELLED
    assert nyc.dials[-1].address == "h:9"
    nyc.say(m.Committed(nyc.stream, 3))  # This commit was in transit on the closed connection.
    assert len(app.bodies("@NYC")) == 2
    assert ids(nyc.up(commit_id=2, trailer=trailer_of(sent, 2))) == [3]
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["addresses"], row["error"]) == ("up", ["h:9"], "")


def test_dial_of_the_addresses_before_is_given_up(app: Client, nyc: Nyc) -> None:
    before = nyc.dials[0]
    alter(app, nyc, "h:9")
    nyc.answer(dial=before, name="BOS")
    assert nyc.goaway is not None
    assert nyc.goaway.code == ErrorCode.CANCELLED
    app.manager.turns.intake.event(0, lambda broker: broker.dial_failed(before, "timeout"))
    nyc.turn()
    assert state(app) == "dialling"
    nyc.up()
    assert state(app) == "up"


def test_waiting_link_dials_other_addresses_at_once(app: Client, nyc: Nyc) -> None:
    for _ in range(5):
        nyc.turn(60_000)
        failed = nyc.dials[-1]
        app.manager.turns.intake.event(
            0, functools.partial(Broker.dial_failed, dial=failed, why="x")
        )
        nyc.turn()
    assert state(app) == "waiting"
    alter(app, nyc, "h:8", "h:9")
    assert nyc.dials[-1].address == "h:8"
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["error"], row["attempts"]) == ("dialling", "", 1)


def test_wrong_address_is_corrected_and_nothing_is_lost(
    store: AnyStore, app: Client, nyc: Nyc
) -> None:
    """Messages are not lost after a crash either."""
    app.put("F@NYC", b"1", b"2")
    nyc.answer(name="BOS")
    assert state(app) == "refused"
    alter(app, nyc, "h:9")
    app.manager.crash()
    nyc.turn()
    assert nyc.dials[-1].address == "h:9"
    assert ids(nyc.up()) == [1, 2]


def test_other_queue_manager_at_other_addresses_gets_nothing(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    nyc.up()
    alter(app, nyc, "bos:1")
    assert nyc.answer(name="BOS") == []
    assert (state(app), app.bodies("@NYC")) == ("refused", [b"1"])
    alter(app, nyc, "h:1")
    assert ids(nyc.up()) == [1]


def test_stopped_link_stays_stopped_with_other_addresses(app: Client, nyc: Nyc) -> None:
    app.ask(m.LinkStop, "NYC")
    nyc.dials.clear()
    alter(app, nyc, "h:9")
    nyc.turn(10**6)
    assert (state(app), nyc.dials) == ("stopped", [])
    app.send(m.LinkStart(1_002, "NYC"))
    nyc.turn()
    assert [dial.address for dial in nyc.dials] == ["h:9"]


def test_blocked_link_with_other_addresses_dials(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    nyc.up()
    nyc.say(m.Blocked(nyc.stream, 1, ErrorCode.QUEUE_UNKNOWN, 10_000))
    alter(app, nyc, "h:9")
    assert state(app) == "dialling"
    assert nyc.turn(10_000) == []  # The retry is not due yet.
    assert ids(nyc.up()) == [1]


def test_same_addresses_disturb_nothing(app: Client, nyc: Nyc) -> None:
    nyc.up()
    alter(app, nyc, "h:1", "h:2")
    assert (state(app), nyc.goaway, len(nyc.dials)) == ("up", None, 1)


def test_link_reports_downtime_and_next_dial(app: Client, nyc: Nyc) -> None:
    def times() -> tuple[object, object]:
        row = app.ask(m.LinkShow, "NYC")
        return row["down_ms"], row["redial_ms"]

    nyc.manager.advance(700)
    assert times() == (700, None)  # The link is dialling now.
    nyc.up()
    assert times() == (None, None)
    nyc.hang_up()
    down_ms, redial_ms = times()
    assert down_ms == 0
    assert isinstance(redial_ms, int)
    assert redial_ms > 10
    nyc.manager.advance(10)
    assert times() == (10, redial_ms - 10)
    app.ask(m.LinkStop, "NYC")
    assert times() == (10, None)


def test_blocked_link_is_not_down(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1")
    nyc.up()
    nyc.say(m.Blocked(nyc.stream, 1, ErrorCode.QUEUE_FULL, 1_000))
    row = app.ask(m.LinkShow, "NYC")
    assert (row["state"], row["down_ms"], row["redial_ms"]) == ("blocked", None, None)
    assert row["retry_ms"] == 1_000
    nyc.manager.advance(300)
    assert app.ask(m.LinkShow, "NYC")["retry_ms"] == 700
    nyc.turn(700)
    assert app.ask(m.LinkShow, "NYC")["retry_ms"] is None


def test_blocked_link_reports_message_queue_and_later_messages(app: Client, nyc: Nyc) -> None:
    def cause() -> tuple[object, ...]:
        row = app.ask(m.LinkShow, "NYC")
        return row["blocked_queue"], row["blocked_uid"], row["blocked_behind"]

    app.put("F@NYC", b"1")
    app.put("G@NYC", b"2", b"3")
    sent = nyc.up()
    assert cause() == (None, None, None)
    nyc.say(m.Blocked(nyc.stream, 2, ErrorCode.QUEUE_UNKNOWN, 1_000))
    uid = str(records.decode(sent[1].records[0]).uid)
    assert cause() == ("G", uid, 1)
    app.put("F@NYC", b"4")
    assert cause() == ("G", uid, 2)
    nyc.turn(1_000)
    assert cause() == (None, None, None)
    nyc.say(m.Blocked(nyc.stream, 2**62, ErrorCode.QUEUE_UNKNOWN, 1_000))
    assert cause() == (None, None, None)  # The message does not exist.


def test_stopped_link_has_no_error(app: Client, nyc: Nyc) -> None:
    failed = nyc.dials[-1]
    app.manager.turns.intake.event(0, lambda broker: broker.dial_failed(failed, "h:1: refused"))
    nyc.turn()
    assert app.ask(m.LinkShow, "NYC")["error"] == "h:1: refused"
    row = app.ask(m.LinkStop, "NYC")
    assert (row["error"], row["attempts"]) == ("", 0)


def hung_up(nyc: Nyc) -> str:
    """Returns the error of a link after its peer closed the connection."""
    nyc.peer.closed("the peer closed the connection")
    nyc.turn()
    error: str = nyc.manager.turns.broker.catalogue.links["NYC"].error
    return error


def test_closing_peer_is_named_with_its_address(app: Client, nyc: Nyc) -> None:
    nyc.up()
    assert hung_up(nyc) == "h:1: the peer closed the connection"


def test_peer_that_closes_soon_is_dialled_less_and_less_often(app: Client, nyc: Nyc) -> None:
    """A login costs this queue manager much more time than its peer."""
    waits_ms = []
    for _ in range(4):
        nyc.up()
        hung_up(nyc)
        row, before_ms = app.ask(m.LinkShow, "NYC"), len(nyc.dials)
        assert row["state"] == "waiting"
        waited_ms = 0
        while len(nyc.dials) == before_ms:
            nyc.turn(10)
            waited_ms += 10
        waits_ms.append(waited_ms)
    assert waits_ms == sorted(waits_ms)
    assert waits_ms[-1] > 2 * waits_ms[0]


def test_peer_that_closes_without_a_welcome_may_not_be_a_queue_manager(
    app: Client, nyc: Nyc
) -> None:
    nyc.peer = Peer(
        101,
        app.manager.turns.intake,
        app.manager.config.limits,
        app.manager._welcome,
        app.manager.tokens,
        0,
        dial=nyc.dials[-1],
    )
    nyc.peer.hello()
    assert hung_up(nyc) == "h:1: the peer closed the connection; is it a qmgrd?"


def test_peer_that_says_goodbye_before_the_welcome_is_a_queue_manager(
    app: Client, nyc: Nyc
) -> None:
    nyc.peer = Peer(
        101,
        app.manager.turns.intake,
        app.manager.config.limits,
        app.manager._welcome,
        app.manager.tokens,
        0,
        dial=nyc.dials[-1],
    )
    wire = Connection(Side.LISTENER)
    wire.receive(nyc.peer.hello(), 0)
    nyc.peer.receive(wire.send(m.Goaway(ErrorCode.PEER_KEPT_OUT, "later")), 0)
    assert hung_up(nyc) == "h:1: the peer closed the connection"


# -- times


def extras(sent: list[Any]) -> list[Any]:
    return [extra for put in sent for extra in put.extras]


def test_time_that_is_left_counts_down_over_hops(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", expiry_ms=10_000)
    app.manager.advance(4_000)
    assert extras(nyc.up()) == [[0, {m.EXTRA_EXPIRY_MS: 6_000}]]


def test_expired_message_is_a_tombstone_on_the_wire_D11_B18(app: Client, nyc: Nyc) -> None:
    """A tombstone replaces the message, swept or not. The commit id covers the tombstone."""
    app.put("F@NYC", b"1")
    app.put("F@NYC", b"2", expiry_ms=1_000)
    app.put("F@NYC", b"3")
    app.manager.advance(1_000)
    sent = nyc.up()
    assert [(x.first_id, x.queue, x.records[:1]) for x in sent if not x.queue] == [(2, "", [b""])]
    assert ids(sent) == [1, 2, 3]
    nyc.say(m.Committed(nyc.stream, 3))
    assert app.show("@NYC")["depth"] == 0
    assert app.manager.scan(keys.SPACE_DUE) == []


def test_message_in_flight_is_not_removed_before_it_is_committed_D11(
    store: AnyStore, app: Client, nyc: Nyc
) -> None:
    app.put("F@NYC", b"1", expiry_ms=1_000)
    sent = nyc.up()
    for _ in range(5):
        nyc.turn(5_000)
    assert app.show("@NYC")["depth"] == 1
    nyc.hang_up()
    nyc.turn(1_000)
    (opening,) = nyc.answer()
    nyc.stream += 1
    nyc.say(m.Ok(opening.request_id, [nyc.stream, 1, [], trailer_of(sent, 1), 4096, 1, 0, b""]))
    assert (app.show("@NYC")["depth"], app.show("@NYC")["acked"]) == (0, 1)
    assert app.manager.scan(keys.SPACE_DUE) == []


def test_lost_one_is_a_tombstone_on_the_wire_D11(app: Client, nyc: Nyc) -> None:
    app.put("F@NYC", b"1", flags=records.FLAG_NOT_PERSISTENT)
    app.put("F@NYC", b"2")
    app.manager.crash()
    nyc.turn()
    sent = nyc.up()
    assert [(x.first_id, x.queue) for x in sent] == [(1, ""), (2, "F")]


def test_delay_is_waited_for_at_the_other_end(app: Client, nyc: Nyc) -> None:
    """The link deducts the time that the message has already waited at this end."""
    app.put("F@NYC", b"1", delay_ms=10_000)
    app.manager.advance(4_000)
    assert extras(nyc.up()) == [[0, {m.EXTRA_DELAY_MS: 6_000}]]


@pytest.mark.parametrize("years", [-50, 50])
def test_wall_clock_that_jumps_makes_no_delay_longer(app: Client, nyc: Nyc, years: int) -> None:
    app.put("F@NYC", b"1", delay_ms=10_000)
    app.manager.wall_us += years * 365 * 24 * 3_600_000_000
    ((_, extra),) = extras(nyc.up())
    assert 0 <= extra[m.EXTRA_DELAY_MS] <= 10_000


def test_dead_letter_that_goes_over_a_link_expires_no_more_G12(app: Client, nyc: Nyc) -> None:
    """The stored record still has the old expiry time."""
    app.ask(m.QueueAlter, "Q", {"backout_queue": "F@NYC"})
    app.put("Q", b"1", expiry_ms=10_000)
    app.settle(m.REJECT, *app.get("Q"))
    ((_, extra),) = extras(nyc.up())
    assert extra[m.EXTRA_EXPIRY_MS] == 0
    assert extra[m.EXTRA_NOTE]
