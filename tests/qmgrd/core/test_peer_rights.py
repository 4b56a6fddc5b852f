"""Attacks of users and of linked queue managers on the names and messages of other ones.

NYC and EWR are queue managers with valid logins. Each of them tries to pass for the other, and to
send, fetch or commit what belongs to the other. Eve is a client with a valid login.
"""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.frame import encode
from qmgr_protocol.layout import to_array
from qmgrd.core.catalogue.system import DEAD_LETTERS
from qmgrd.core.context.peers import REFUSED_MAX
from qmgrd.core.jobs import retry
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.guarded import VERIFIER, Guarded
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record
from tests.qmgrd.core.lines import Lines
from tests.qmgrd.core.recorded import audit_of
from tests.qmgrd.core.unit_of_work import note_of

NYC_STORE, EWR_STORE = b"N" * 16, b"E" * 16
STORES = {"NYC": NYC_STORE, "EWR": EWR_STORE}
FETCH = (0, 65_536, 1_000, 1_000, 1_000)


def stream_of(store_id: bytes) -> bytes:
    return store_id + (1).to_bytes(8, "big")


@pytest.fixture
def guarded(store: AnyStore) -> Guarded:
    """Returns a queue manager with the guarded peers NYC and EWR."""
    found = Guarded(Manager(store, link={"inbound": "defined"}))
    found.owner.ask(m.QueueCreate, "Q")
    found.owner.ask(m.QueueCreate, "SECRET")
    for name in STORES:
        bind(found, name, name)
        found.owner.ask(m.LinkAllow, name)
    return found


def bind(guarded: Guarded, user: str, manager: str) -> None:
    attributes = {"verifier": VERIFIER, "roles": ["peer"], "queue_manager": manager}
    guarded.owner.ask(m.UserCreate, user, attributes)


def far(guarded: Guarded, name: str, *, user: str = "", store_id: bytes = b"") -> Far:
    """Connects as queue manager *name*, by default with its own login and store."""
    found = Far(guarded.manager, name, store_id or STORES[name], user=user or name)
    guarded.manager.turn()
    return found


def opened(guarded: Guarded, name: str) -> Far:
    found = far(guarded, name)
    found.open(stream_of(STORES[name]))
    return found


def codes(answers: list[Any]) -> list[ErrorCode]:
    return [ErrorCode(x.code) for x in answers if hasattr(x, "code")]


def of(origin: str, timestamp: int = 1) -> bytes:
    return record(b"%d" % timestamp, uid=(origin, timestamp))


def is_closed_with(client: Client, code: ErrorCode) -> bool:
    return client.goaway is not None and client.goaway.code == code


# Names


@pytest.mark.parametrize(
    ("user", "name"), [("NYC", "EWR"), ("eve", "EWR"), ("NYC", "LAX")], ids=lambda x: x
)
def test_user_cannot_take_the_name_of_another_queue_manager(
    guarded: Guarded, user: str, name: str
) -> None:
    """Not even with the right to every name."""
    guarded.user("eve", "link peer *", "fetch peer *")
    guarded.grant("NYC", "link peer *")
    impostor = far(guarded, name, user=user, store_id=EWR_STORE)
    assert is_closed_with(impostor.client, ErrorCode.PEER_USER_WRONG)
    (refused,) = guarded.owner.ask(m.LinkList)["refused"]
    bound = name if name == "EWR" else user  # Nobody is bound to LAX, so the name may be invented.
    assert (refused["peer"], refused["code"]) == (bound, "PEER_USER_WRONG")


def test_impostor_is_audited_and_cannot_push_out_refusals_of_others(guarded: Guarded) -> None:
    """The user and its password are right, but each of its logins is refused."""
    guarded.user("eve", "link peer *")
    far(guarded, "EWR", user="eve")
    for number in range(REFUSED_MAX + 1):
        far(guarded, f"X{number}", user="NYC", store_id=NYC_STORE)
    refused = guarded.owner.ask(m.LinkList)["refused"]
    assert [(row["peer"], row["count"]) for row in refused] == [
        ("NYC", REFUSED_MAX + 1),
        ("EWR", 1),
    ]
    logins = [row for row in audit_of(guarded.manager) if row["result"] == "PEER_USER_WRONG"]
    assert {row["user"] for row in logins} == {"eve", "NYC"}


def test_administrator_cannot_take_the_name_of_a_bound_queue_manager(guarded: Guarded) -> None:
    impostor = far(guarded, "EWR", user="admin")
    assert is_closed_with(impostor.client, ErrorCode.PEER_USER_WRONG)


def test_bound_user_may_be_a_client(guarded: Guarded) -> None:
    client = guarded.manager.connect("anything", user="NYC")
    assert client.goaway is None


def test_queue_manager_with_another_store_opens_and_fetches_nothing(guarded: Guarded) -> None:
    """The first link pins the store, also for a user with the right password."""
    opened(guarded, "EWR")
    guarded.owner.ask(m.LinkCreate, "EWR", {"addresses": []})
    reinstalled = far(guarded, "EWR", store_id=NYC_STORE)
    open_ = m.LinkOpen(10, stream_of(NYC_STORE), 1, 100)
    answers = [*reinstalled.client.say(open_), *reinstalled.client.say(m.LinkFetch(11, *FETCH))]
    assert codes(answers) == [ErrorCode.PEER_STORE_CHANGED] * 2
    guarded.owner.ask(m.LinkAllow, "EWR", NYC_STORE)
    assert codes(reinstalled.client.say(open_)) == [], "accepted once an operator allows the store"


def test_queue_manager_has_only_one_user(guarded: Guarded) -> None:
    with pytest.raises(RequestError, match="user EWR is already bound to queue manager EWR") as e:
        bind(guarded, "other", "EWR")
    assert e.value.code == ErrorCode.VALUE_INVALID
    guarded.owner.ask(m.UserDelete, "EWR")
    bind(guarded, "other", "EWR")
    assert far(guarded, "EWR", user="other").client.goaway is None


def test_binding_ends_the_links_of_other_users(guarded: Guarded) -> None:
    guarded.owner.ask(m.UserAlter, "EWR", {"queue_manager": ""})
    guarded.user("eve", "link peer EWR", "put queue Q")
    eve = far(guarded, "EWR", user="eve")
    guarded.owner.ask(m.LinkAllow, "EWR")
    eve.open(stream_of(EWR_STORE))
    assert eve.client.goaway is None
    guarded.owner.ask(m.UserAlter, "EWR", {"queue_manager": "EWR"})
    assert is_closed_with(eve.client, ErrorCode.NOT_AUTHORIZED)


def test_binding_survives_a_restart(guarded: Guarded) -> None:
    guarded.manager.restart()
    assert is_closed_with(far(guarded, "EWR", user="NYC").client, ErrorCode.PEER_USER_WRONG)
    assert far(guarded, "EWR").client.goaway is None


# Streams and sessions


def test_peer_cannot_open_fence_or_commit_the_stream_of_another(guarded: Guarded) -> None:
    ewr, nyc = opened(guarded, "EWR"), far(guarded, "NYC")
    nyc.client.say(m.LinkOpen(10, stream_of(EWR_STORE), 1, 100, b"another life"))
    assert is_closed_with(nyc.client, ErrorCode.FIELD_INVALID)
    for attack in (m.Put(ewr.stream, 1, 0, "Q", [of("EWR")]), m.CommitAsk(ewr.stream)):
        nyc = far(guarded, "NYC")
        nyc.client.say(attack)
        assert is_closed_with(nyc.client, ErrorCode.STREAM_UNKNOWN)
    nyc = opened(guarded, "NYC")
    nyc.client.write(encode(to_array(m.Committed(ewr.stream, 100, []))))
    guarded.manager.turn()
    assert is_closed_with(nyc.client, ErrorCode.NOT_AUTHORIZED)
    assert ewr.client.goaway is None
    ewr.send(1, of("EWR"))
    assert ewr.committed()[-1:] == [1]


def test_client_cannot_open_a_stream_or_fetch(guarded: Guarded) -> None:
    guarded.user("eve", "link peer *", "fetch peer *")
    for attack in (m.LinkOpen(10, stream_of(EWR_STORE), 1, 100), m.LinkFetch(11, *FETCH)):
        eve = guarded.manager.connect("EWR", store_id=EWR_STORE, user="eve")
        eve.write(encode(to_array(attack)))
        assert is_closed_with(eve, ErrorCode.STATE_VIOLATION)


def test_user_cannot_resume_the_session_of_another(guarded: Guarded) -> None:
    bob = guarded.user("bob", "get queue Q")
    guarded.user("eve", "get queue Q")
    token = bob.session
    eve = guarded.manager.connect("bob", session=token, user="eve")
    assert bob.goaway is None
    assert token
    assert eve.session != token


# Messages of others


def test_peer_sends_only_its_own_messages(guarded: Guarded) -> None:
    """Otherwise, it could make the real message vanish as a duplicate."""
    nyc = opened(guarded, "NYC")
    blocked = [x for x in nyc.send(1, of("NYC"), of("EWR"), of("NYC", 2)) if type(x) is m.Blocked]
    assert [(x.seq_id, x.code) for x in blocked] == [(2, ErrorCode.NOT_AUTHORIZED)]
    assert "the right to forward on peer EWR is required" in blocked[0].text
    assert guarded.owner.bodies("Q") == [b"1", b"2"]
    assert nyc.committed()[-1:] == [1], "the commit id stays before the refused message"
    ewr = opened(guarded, "EWR")
    ewr.send(1, of("EWR"))
    assert ewr.committed()[-1:] == [1]


def test_hub_forwards_messages_of_those_for_which_it_has_the_right(guarded: Guarded) -> None:
    guarded.grant("NYC", "forward peer L*")
    nyc = opened(guarded, "NYC")
    nyc.send(1, of("LAX"), of("LHR"))
    assert nyc.committed()[-1:] == [2]
    assert codes(nyc.send(3, of("EWR"))) == [ErrorCode.NOT_AUTHORIZED]
    guarded.revoke("NYC", "forward peer L*")
    assert codes(nyc.send(4, of("LAX", 9))) == [ErrorCode.NOT_AUTHORIZED]


def test_peer_passes_messages_to_a_third_only_with_the_right(guarded: Guarded) -> None:
    guarded.owner.ask(m.LinkCreate, "EWR", {"addresses": [], "transit": True})
    nyc = opened(guarded, "NYC")
    for seq_id, name in enumerate(("Q@EWR", "/a/b@EWR"), 1):
        assert nyc.send(seq_id, of("NYC", seq_id), queue=name) == []
    assert guarded.owner.ask(m.LinkShow, "EWR")["waiting"] == 0
    assert dead_codes(guarded) == [ErrorCode.SENDER_NOT_AUTHORIZED] * 2
    guarded.grant("NYC", "put queue *@EWR")
    for seq_id, name in enumerate(("Q@EWR", "/a/b@EWR"), 3):
        nyc.send(seq_id, of("NYC", seq_id), queue=name)
    assert guarded.owner.ask(m.LinkShow, "EWR")["waiting"] == 2


def test_peer_fetches_only_the_messages_for_itself(guarded: Guarded) -> None:
    for name in STORES:
        guarded.owner.ask(m.LinkCreate, name, {"addresses": []})
        guarded.owner.ask(m.QueueCreate, f"Q@{name}")
        guarded.owner.put(f"Q@{name}", b"for " + name.encode())
    guarded.owner.put("SECRET", b"for nobody")
    nyc = far(guarded, "NYC")
    heard = bytearray()
    read = nyc.client.read

    def listen(data: bytes) -> None:
        heard.extend(data)
        read(data)

    nyc.client.read = listen  # type: ignore[method-assign]
    nyc.client.ask(m.LinkFetch, 0, 8 << 20, 4 << 20, 100, 1 << 20)
    (open_,) = [x for x in nyc.client.hear() if type(x) is m.LinkOpen]
    nyc.client.send(m.Ok(open_.request_id, [1, 0, [], None, 100, 1, 0, b""]))
    guarded.manager.turn(10)
    assert b"for NYC" in heard
    for secret in (b"for EWR", b"for nobody"):
        assert secret not in heard


@pytest.mark.parametrize(
    "attack",
    [
        m.Get(20, "Q@EWR", 1, 0),
        m.Browse(20, "@EWR"),
        m.Browse(20, "SECRET"),
        m.QueueMove(20, "@EWR", "Q"),
        m.LinkDelete(20, "EWR", purge=True),
        m.LinkStart(20, "EWR"),
        m.LinkAllow(20, "NYC", b"X" * 16),
        m.UserAlter(20, "NYC", {"queue_manager": "EWR"}),
        m.GrantCreate(20, "NYC", "", ["forward"], "peer", "*"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_peer_has_no_other_way_to_messages_or_rights(guarded: Guarded, attack: Any) -> None:
    guarded.owner.ask(m.LinkCreate, "EWR", {"addresses": []})
    guarded.owner.ask(m.QueueCreate, "Q@EWR")
    nyc = far(guarded, "NYC")
    refused = codes(nyc.client.say(attack)) or [ErrorCode(nyc.client.goaway.code)]  # type: ignore[union-attr]
    assert refused[0] in (ErrorCode.NOT_AUTHORIZED, ErrorCode.QUEUE_UNKNOWN, ErrorCode.LINK_UNKNOWN)


# Links that fetch


def test_fetched_messages_need_the_rights_of_the_bound_user(guarded: Guarded) -> None:
    """The queue manager that fetches dialled, so the other one did not log in."""
    lines = Lines(guarded.manager, fetch=True, connections=1)
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    line.say(m.Ok(2, None))
    line.sent.clear()
    line.say(m.LinkOpen(1, stream_of(NYC_STORE), 1, 1, b"", 128))
    (ok,) = line.sent
    line.sent.clear()
    line.say(m.Put(ok.value[0], 1, 0, "Q", [of("NYC")]))
    line.say(m.Put(ok.value[0], 2, 0, "Q", [of("EWR", 2)]))
    line.say(m.Put(ok.value[0], 3, 0, "Q@LAX", [of("NYC", 3)]))
    blocked = [x for x in line.sent if type(x) is m.Blocked]
    assert [x.seq_id for x in blocked] == [2]
    assert dead_codes(guarded) == [ErrorCode.SENDER_NOT_AUTHORIZED]
    assert "the right to forward on peer EWR" in blocked[0].text
    assert guarded.owner.bodies("Q") == [b"1"]
    guarded.owner.ask(m.UserAlter, "NYC", {"queue_manager": ""})
    line.say(m.Put(ok.value[0], 2, 0, "Q", [of("EWR", 2)]))
    assert guarded.owner.bodies("Q") == [b"1", b"2"], "nobody is bound to NYC"


# Owners


def test_new_user_of_the_same_name_does_not_inherit(guarded: Guarded) -> None:
    """Neither the subscription, the job, the producer nor the session of the deleted user."""
    grants = ("subscribe topic a", "create subscription *", "purge queue Q", "put queue Q")
    bob = guarded.user("bob", *grants)
    bob.ask(m.Subscribe, "a", ":S")
    bob.ask(m.ProducerOpen, b"P" * 16)
    token = bob.session
    guarded.owner.ask(m.UserDelete, "bob")
    bob = guarded.user("bob", *grants)
    (owner,) = guarded.manager.turns.broker.catalogue.topics.owned
    found = guarded.manager.turns.broker.catalogue.topics.subscriptions[":S"]
    assert found.owner == owner
    assert found.is_refused, "its publications stop, although the new user may subscribe"
    assert codes(bob.say(m.ProducerOpen(30, b"P" * 16))) == [ErrorCode.NOT_AUTHORIZED]
    again = guarded.manager.connect("bob", session=token, user="bob")
    assert token
    assert again.session != token
    guarded.manager.restart()
    found = guarded.manager.turns.broker.catalogue.topics.subscriptions[":S"]
    assert found.is_refused


def test_job_of_a_deleted_user_fails_although_a_new_user_has_its_name(guarded: Guarded) -> None:
    grants = ("move queue Q", "put queue SECRET")
    for _ in range(5):
        guarded.owner.put("Q", b"1")
    bob = guarded.user("bob", *grants)
    job = bob.ask(m.QueueMove, "Q", "SECRET", "", 0, 1)["job"]
    guarded.owner.ask(m.UserDelete, "bob")
    guarded.user("bob", *grants)
    guarded.manager.turn(60_000)
    found = guarded.job(job)
    assert (found["state"], "NOT_AUTHORIZED" in found["text"]) == ("failed", True)


@pytest.mark.parametrize("queue", ["X@FAR", "/any/topic"])
@pytest.mark.parametrize("origin", ["NYC", "LAX"])
def test_loop_is_no_way_around_the_rights(guarded: Guarded, queue: str, origin: str) -> None:
    """A message of another queue manager in a loop becomes no dead letter without the right."""
    guarded.owner.ask(m.UserAlter, "NYC", {"roles": []})
    for rights in (["link"], ["fetch"]):
        guarded.owner.ask(m.GrantCreate, "NYC", "", rights, "peer", "NYC")
    nyc = opened(guarded, "NYC")
    way = [[0, {m.EXTRA_NOTE: pack({"hops": ["QM1"]})}]]
    put = m.Put(nyc.stream, 1, 0, queue, [record(b"x", uid=(origin, 1))], way)
    if origin == "NYC":
        assert codes(nyc.client.say(put)) == []
        assert dead_codes(guarded) == [ErrorCode.SENDER_NOT_AUTHORIZED]
    else:
        assert codes(nyc.client.say(put)) == [ErrorCode.NOT_AUTHORIZED]
        assert dead_codes(guarded) == []


# Messages that the user of a link may not put


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("queue", ["SECRET", "NONE", "/any/topic", "SYSTEM.EVENTS"])
def test_message_without_the_right_to_put_does_not_stop_the_link(
    guarded: Guarded, queue: str, ordered: bool
) -> None:
    nyc = limited(guarded, ordered=ordered)
    assert nyc.send(1, of("NYC", 1), queue=queue) == []
    nyc.send(2, of("NYC", 2))
    assert guarded.owner.bodies("Q") == [b"2"]
    assert nyc.committed()[-1:] == [2]
    (letter,) = guarded.owner.browse(DEAD_LETTERS)
    note = note_of(letter)
    assert (note["code"], note["queue"]) == (ErrorCode.SENDER_NOT_AUTHORIZED, queue)
    assert note["text"] == f"the user of the link from NYC lacks the right to put on {queue}"
    (row,) = guarded.owner.ask(m.LinkList)["inbound"]
    assert (row["blocked_id"], row["dead_letters"]) == (None, 1)
    assert row["dead_error"].startswith("SENDER_NOT_AUTHORIZED: the user of the link from NYC")
    assert not [x for x in guarded.owner.bodies("SYSTEM.EVENTS") if b"link blocked" in x]


def test_other_messages_of_the_same_frame_need_no_retry(guarded: Guarded) -> None:
    """One of another queue manager still blocks, because its UID could be forged."""
    nyc = limited(guarded)
    sent = nyc.send(1, of("NYC", 1), of("EWR", 2), of("NYC", 3), queue="SECRET")
    assert codes(sent) == [ErrorCode.NOT_AUTHORIZED]
    assert guarded.owner.bodies(DEAD_LETTERS) == [b"1", b"3"]


def test_operator_returns_a_message_without_the_right_only_to_a_queue_that_it_names(
    guarded: Guarded,
) -> None:
    """Otherwise, the peer would put it with the rights of the operator."""
    limited(guarded).send(1, of("NYC", 1), queue="SECRET")
    job = guarded.owner.ask(m.QueueMove, DEAD_LETTERS, "")["job"]
    guarded.manager.rest()
    row = guarded.job(job)
    assert row["text"] == f"1 stayed: {retry.NOT_AUTHORIZED}"
    assert guarded.owner.bodies("SECRET") == []
    guarded.owner.ask(m.QueueMove, DEAD_LETTERS, "SECRET", "", 0, 3)
    guarded.manager.rest()
    assert guarded.owner.bodies("SECRET") == [b"1"]


def test_rights_that_are_only_reported_make_no_dead_letter() -> None:
    guarded = Guarded(Manager(auth={"mode": "report"}))
    guarded.owner.ask(m.QueueCreate, "SECRET")
    bind(guarded, "NYC", "NYC")
    limited(guarded).send(1, of("NYC", 1), queue="SECRET")
    assert guarded.owner.bodies("SECRET") == [b"1"]


def limited(guarded: Guarded, *, ordered: bool = False) -> Far:
    """Opens the link of NYC, which may put only on Q."""
    guarded.owner.ask(m.UserAlter, "NYC", {"roles": []})
    for grant in ("link peer NYC", "put queue Q"):
        guarded.grant("NYC", grant)
    found = far(guarded, "NYC")
    found.open(stream_of(NYC_STORE), ordered=ordered)
    return found


def dead_codes(guarded: Guarded) -> list[int]:
    return [note_of(found)["code"] for found in guarded.owner.browse(DEAD_LETTERS)]
