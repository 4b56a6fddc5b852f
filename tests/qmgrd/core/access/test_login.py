"""Logins, from the first byte on: who gets in, and what a stranger can learn."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.model import AuthConfig, LimitsConfig
from qmgr_protocol import messages as m
from qmgr_protocol import scram
from qmgr_protocol.certificate_login import EXTERNAL
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError, StateViolation
from qmgr_protocol.frame import encode
from qmgr_protocol.layout import to_array
from qmgr_protocol.scram import ClientLogin, make_verifier
from qmgr_protocol.states import Side
from qmgr_protocol.verifier import Verifier
from qmgrd.core.access.login import OPEN, OTHER_METHOD, OWNER, Identity, Login, Logins, Welcomed
from qmgrd.core.access.login_delays import DELAY_MIN_MS, FREE_FAILURES
from qmgrd.core.access.origin import Origin, Tls
from qmgrd.core.access.user import User
from qmgrd.core.intake import Intake
from qmgrd.core.peer import Peer, goodbye
from qmgrd.core.sessions.session_token import SessionTokens
from tests.qmgrd.core.harness import SECRET, Manager

PASSWORD = "correct horse"
VERIFIER = make_verifier(PASSWORD, bytes(16))
NONCE, SERVER_NONCE = "clientNonce0123456789", "serverNonce0123456789"
WELCOME = m.Welcome(1, "QM1", b"S" * 16, 7)
HELLO = m.Hello(m.MAGIC, 1, 1, "client", "orders")
HASH = b"hash of our certificate"
REMOTE, ENCRYPTED = (Origin("10.0.0.1", False, tls=tls) for tls in (Tls(), Tls(HASH)))
LOCAL, HERE = Origin("127.0.0.1"), Origin("unix", True, True)
LOGGED_IN = Identity("app", scram.METHOD, VERIFIER)


class Known:
    """The users of a queue manager."""

    def __init__(self, *users: User, is_open: bool = False) -> None:
        self.users = {user.name: user for user in users}
        self.is_open = is_open


class Door:
    """A queue manager at which clients log in."""

    def __init__(self, *users: User, is_open: bool = False, **auth: Any) -> None:
        self.known = Known(*(users or [User("app", VERIFIER)]), is_open=is_open)
        self.logins = Logins(lambda: self.known, SECRET, AuthConfig.model_validate(auth))
        self.now_ms = 0

    def dial(self, origin: Origin = REMOTE, nonce: str = SERVER_NONCE) -> "Dialled":
        return Dialled(self, origin, nonce)


class Heard:
    """The connections and refused logins of which the broker hears."""

    def __init__(self) -> None:
        self.auditor = self
        self.connections: list[int] = []
        self.refused: list[tuple[Any, ...]] = []

    def opened(self, connection: int, *facts: Any) -> None:
        self.connections.append(connection)

    def login_refused(self, *facts: Any) -> None:
        self.refused.append(facts)


class Dialled:
    """A connection to a door."""

    def __init__(self, door: Door, origin: Origin, nonce: str) -> None:
        self._door = door
        self._intake = Intake()
        self.peer = Peer(
            1,
            self._intake,
            LimitsConfig(),
            WELCOME,
            SessionTokens(SECRET, b"salt"),
            0,
            login=Login(door.logins, origin, nonce),
        )
        self._wire = Connection(Side.DIALLER)

    def say(self, message: Any) -> Any:
        """Sends a message and returns the answer."""
        sent = self._wire.send(message)
        try:
            answer = self.peer.receive(sent, self._door.now_ms)
        except RemoteProtocolError as error:
            answer = self.peer.encode(goodbye(error))
        found = [heard for heard, _ in self._wire.receive(answer, 0)]
        assert self._wire.error is None
        return found[0] if found else None

    def begin(self, user: str = "app", password: str = PASSWORD, session: bytes = b"") -> Any:
        self.login = ClientLogin(user, password, NONCE)
        first = self.login.first()
        return self.say(HELLO._replace(auth_method=scram.METHOD, auth_data=first, session=session))

    def log_in(self, user: str = "app", password: str = PASSWORD, session: bytes = b"") -> Any:
        challenge = self.begin(user, password, session)
        if not isinstance(challenge, m.AuthChallenge):
            return challenge
        return self.say(m.AuthAnswer(self.login.answer(challenge.data)))

    @property
    def events(self) -> int:
        """The number of connections of which the broker learns. It also records refused logins."""
        return len(self.heard.connections)

    @property
    def heard(self) -> Heard:
        """The connections and refused logins of which the broker learns."""
        broker: Any = Heard()
        for _, arrival in self._intake.take(10, 1 << 20):
            assert arrival.event is not None
            arrival.event(broker)
        return broker  # type: ignore[no-any-return]


def code_of(answer: Any) -> ErrorCode:
    assert type(answer) is m.Goaway, answer
    return ErrorCode(answer.code)


def test_right_password_opens_the_connection() -> None:
    dialled = Door().dial()
    welcome = dialled.log_in()
    assert type(welcome) is m.Welcome
    dialled.login.check(welcome.auth_data)
    assert dialled.peer.is_open
    assert dialled.events == 1


@pytest.mark.parametrize(
    ("origin", "is_open", "identity"),
    [
        (HERE, False, OWNER),
        (HERE, True, OWNER),
        (LOCAL, True, OPEN),
        (LOCAL, False, None),
        (REMOTE, True, None),
        (REMOTE, False, None),
        (Origin("unix"), False, None),
    ],
)
def test_connections_that_need_no_password(
    origin: Origin, is_open: bool, identity: Identity | None
) -> None:
    decision = Login(Door(is_open=is_open).logins, origin, SERVER_NONCE).begin(HELLO, 0)
    if identity is None:
        assert code_of(decision) == ErrorCode.LOGIN_REQUIRED
    else:
        assert getattr(decision, "identity", None) == identity


@pytest.mark.parametrize("method", ["", "plain", "SCRAM-SHA-256", "scram-sha-1", "x" * 200])
def test_other_method_is_refused_even_to_the_owner(method: str) -> None:
    dialled = Door(is_open=True).dial(HERE)
    assert code_of(dialled.say(HELLO._replace(auth_method=method))) == ErrorCode.LOGIN_REQUIRED
    assert dialled.events == 0


@pytest.mark.parametrize("method", [OWNER.method, OPEN.method, "x" * 200])
def test_refused_hello_cannot_pretend_to_have_another_method(method: str) -> None:
    dialled = Door().dial()
    dialled.say(HELLO._replace(auth_method=method))
    ((identity, *_),) = dialled.heard.refused
    assert identity == Identity("", OTHER_METHOD)


@pytest.mark.parametrize(
    ("name", "user", "why"),
    [
        ("app", User("app", VERIFIER), "wrong password"),
        (
            "app",
            User("app", VERIFIER, is_enabled=False),
            "the user does not exist, is disabled, or",
        ),
        ("app", User("app", None), "the user does not exist, is disabled, or has no password"),
        ("other", User("app", VERIFIER), "the user does not exist"),
    ],
)
def test_log_and_audit_get_the_reason_of_a_wrong_proof(name: str, user: User, why: str) -> None:
    dialled = Door(user).dial()
    assert "wrong" not in dialled.log_in(name, "guess").text
    assert dialled.peer.refusal.startswith(why)
    assert [facts[-1] for facts in dialled.heard.refused] == [dialled.peer.refusal]


REFUSED = [
    ("app", "guess", User("app", VERIFIER)),
    ("app", PASSWORD, User("other", VERIFIER)),
    ("app", PASSWORD, User("app", VERIFIER, is_enabled=False)),
    ("app", PASSWORD, User("app", None)),
    ("app", "guess", User("other", None)),
]


@pytest.mark.parametrize(("user", "password", "known"), REFUSED)
def test_login_that_fails_is_refused_in_the_same_words(
    user: str, password: str, known: User
) -> None:
    """A stranger cannot learn whether a user exists, is disabled, or has a password."""
    dialled = Door(known).dial()
    challenge = dialled.begin(user, password)
    usual = Door().dial().begin()
    assert len(challenge.data) == len(usual.data)
    assert [part[:2] for part in challenge.data.split(b",")] == [b"r=", b"s=", b"i="]
    assert challenge.data.split(b",")[2] == usual.data.split(b",")[2]
    goaway = dialled.say(m.AuthAnswer(dialled.login.answer(challenge.data)))
    assert goaway == m.Goaway(
        ErrorCode.LOGIN_FAILED,
        "the user app does not exist, is disabled, has another password, or may not log in from "
        "here",
    )
    assert dialled.events == 0


def test_challenge_of_an_unknown_user_is_the_same_each_time() -> None:
    first, second = Door(User("other")).dial().begin("nobody"), Door().dial().begin("nobody")
    assert first == second
    assert first != Door().dial().begin("someone")


@pytest.mark.parametrize(
    "after",
    [
        User("app", VERIFIER, is_enabled=False),
        User("app", make_verifier("new password", bytes(16))),
        User("app", make_verifier(PASSWORD, bytes([1]) * 16)),
        User("app", None),
        User("other", VERIFIER),
    ],
)
def test_user_that_changes_before_the_answer_is_refused(after: User) -> None:
    door = Door()
    dialled = door.dial()
    challenge = dialled.begin()
    door.known = Known(after)
    answer = m.AuthAnswer(dialled.login.answer(challenge.data))
    assert code_of(dialled.say(answer)) == ErrorCode.LOGIN_FAILED
    assert dialled.events == 0


def test_answer_of_another_login_is_refused() -> None:
    """A stranger who recorded a login cannot repeat it, because the server's nonce differs."""
    door = Door()
    first = door.dial()
    challenge = first.begin()
    recorded = first.login.answer(challenge.data)
    second = door.dial(nonce="serverNonce9876543210")
    second.begin()
    assert code_of(second.say(m.AuthAnswer(recorded))) == ErrorCode.LOGIN_FAILED
    assert type(first.say(m.AuthAnswer(recorded))) is m.Welcome


def test_challenge_that_is_sent_back_is_no_answer() -> None:
    dialled = Door().dial()
    challenge = dialled.begin()
    assert code_of(dialled.say(m.AuthAnswer(challenge.data))) == ErrorCode.LOGIN_FAILED


def test_failures_delay_the_user_at_that_address_only() -> None:
    door = Door()
    for _ in range(FREE_FAILURES):
        assert code_of(door.dial().log_in(password="guess")) == ErrorCode.LOGIN_FAILED
    delayed = door.dial().log_in()
    assert (delayed.code, delayed.retry_after_ms) == (ErrorCode.LOGINS_DELAYED, DELAY_MIN_MS)
    assert type(door.dial(Origin("10.0.0.2", False, tls=Tls())).log_in()) is m.Welcome
    door.now_ms += DELAY_MIN_MS
    assert type(door.dial().log_in()) is m.Welcome
    assert code_of(door.dial().log_in(password="guess")) == ErrorCode.LOGIN_FAILED


def test_client_that_reconnects_is_not_delayed_by_strangers_at_its_address() -> None:
    door = Door()
    session = door.dial().log_in().session
    for _ in range(3 * FREE_FAILURES):
        door.dial().log_in(password="guess")
    assert code_of(door.dial().log_in()) == ErrorCode.LOGINS_DELAYED
    assert type(door.dial().log_in(session=session)) is m.Welcome


def test_session_of_another_user_is_no_way_around_the_delay() -> None:
    door = Door(User("app", VERIFIER), User("other", VERIFIER))
    session = door.dial().log_in("other").session
    for _ in range(FREE_FAILURES):
        door.dial().log_in(password="guess", session=session)
    assert code_of(door.dial().log_in(session=session)) == ErrorCode.LOGINS_DELAYED
    assert code_of(door.dial().log_in()) == ErrorCode.LOGINS_DELAYED


def test_guesses_of_a_session_delay_this_session_only() -> None:
    door = Door()
    session = door.dial().log_in().session
    for _ in range(FREE_FAILURES):
        door.dial().log_in(password="guess", session=session)
    assert code_of(door.dial().log_in(session=session)) == ErrorCode.LOGINS_DELAYED
    assert type(door.dial().log_in()) is m.Welcome


def test_delays_do_not_show_which_users_exist() -> None:
    door, found = Door(), []
    for user in ("app", "nobody"):
        for _ in range(FREE_FAILURES):
            door.dial().log_in(user, "guess")
        found.append(door.dial().begin(user)._replace(text=""))
    assert found[0] == found[1]


def test_challenges_cannot_be_collected_for_many_guesses() -> None:
    """Only as many of the guesses as without a delay are checked at all."""
    door = Door()
    waiting = [door.dial() for _ in range(3 * FREE_FAILURES)]
    challenges = [dialled.begin(password="guess") for dialled in waiting]
    codes = [
        code_of(dialled.say(m.AuthAnswer(dialled.login.answer(challenge.data))))
        for dialled, challenge in zip(waiting, challenges, strict=True)
    ]
    assert codes.count(ErrorCode.LOGIN_FAILED) == FREE_FAILURES
    assert codes.count(ErrorCode.LOGINS_DELAYED) == 2 * FREE_FAILURES


# -- rules


def test_owner_logs_in_whatever_the_rules_are() -> None:
    door = Door(access=[{"method": "refuse"}])
    assert type(door.dial(HERE).say(HELLO)) is m.Welcome
    assert code_of(door.dial(LOCAL).say(HELLO)) == ErrorCode.LOGIN_REQUIRED


def test_open_door_is_closed_by_a_rule() -> None:
    rules = [{"from": "loopback", "method": "scram-sha-256"}]
    assert code_of(Door(is_open=True, access=rules).dial(LOCAL).say(HELLO)) == (
        ErrorCode.LOGIN_REQUIRED
    )
    rules = [{"from": "10.0.0.0/8", "method": "open"}]
    assert type(Door(is_open=True, access=rules).dial(REMOTE).say(HELLO)) is m.Welcome
    assert code_of(Door(access=rules).dial(REMOTE).say(HELLO)) == ErrorCode.LOGIN_REQUIRED


def test_user_that_a_rule_refuses_fails_as_an_unknown_user_does() -> None:
    door = Door(access=[{"user": "app", "method": "refuse"}, {"method": "scram-sha-256"}])
    refused, unknown = door.dial(), door.dial()
    right, wrong = refused.log_in(), unknown.log_in("nobody")
    assert right.text.replace("app", "nobody") == wrong.text
    assert code_of(right) == code_of(wrong) == ErrorCode.LOGIN_FAILED
    assert "rule 1 refuses" in refused.peer.refusal
    assert "rule" not in right.text.replace("another", "")


def test_passwords_are_refused_at_once_if_no_user_may_use_them_here() -> None:
    door = Door(access=[{"from": "unix", "method": "scram-sha-256"}, {"method": "certificate"}])
    found = [door.dial().begin(user) for user in ("app", "nobody")]
    assert found[0] == found[1]
    assert code_of(found[0]) == ErrorCode.LOGIN_REFUSED


def test_password_from_another_machine_needs_tls_by_default() -> None:
    answer = Door().dial(Origin("10.0.0.1", False)).begin()
    assert code_of(answer) == ErrorCode.LOGIN_REFUSED
    assert answer.text.endswith("use TLS")


def test_rule_can_require_the_binding_to_the_certificate() -> None:
    door = Door(access=[{"method": "scram-sha-256-plus"}])
    assert code_of(door.dial(ENCRYPTED).begin()) == ErrorCode.LOGIN_REFUSED
    assert type(_log_in_over_tls(HASH, door)) is m.Welcome
    door = Door(
        access=[{"user": "app", "method": "scram-sha-256-plus"}, {"method": "scram-sha-256"}]
    )
    assert code_of(door.dial(ENCRYPTED).log_in()) == ErrorCode.LOGIN_FAILED


# -- certificates

CERTIFIED = Origin("10.0.0.1", False, tls=Tls(b"hash", "CN=app", ("dns:app.example.org",), "ab"))
ENTRIES = [{"match": "dns:*.example.org", "user": "{1}"}]
EXTERNAL_HELLO = HELLO._replace(auth_method=EXTERNAL)


def test_certificate_opens_the_connection_of_its_user() -> None:
    decision = Login(Door(certificates=ENTRIES).logins, CERTIFIED, SERVER_NONCE).begin(
        EXTERNAL_HELLO, 0
    )
    assert decision == Welcomed(Identity("app", EXTERNAL))


@pytest.mark.parametrize(
    ("origin", "auth", "user", "reason"),
    [
        (CERTIFIED, {}, User("app"), "no entry"),
        (ENCRYPTED, {"certificates": ENTRIES}, User("app"), "no entry"),
        (LOCAL, {"certificates": ENTRIES}, User("app"), "no entry"),
        (CERTIFIED, {"certificates": ENTRIES}, User("other"), "does not exist"),
        (CERTIFIED, {"certificates": ENTRIES}, User("app", is_enabled=False), "is disabled"),
        (
            CERTIFIED,
            {"certificates": ENTRIES, "access": [{"method": "scram-sha-256"}]},
            User("app"),
            "but not certificate",
        ),
    ],
)
def test_certificate_without_a_user_is_refused_in_the_same_words(
    origin: Origin, auth: dict[str, Any], user: User, reason: str
) -> None:
    dialled = Door(user, **auth).dial(origin)
    answer = dialled.say(EXTERNAL_HELLO)
    assert answer == m.Goaway(
        ErrorCode.LOGIN_FAILED,
        "the certificate of this connection does not belong to a user that may log in here",
    )
    assert reason in dialled.peer.refusal


@pytest.mark.parametrize(
    ("kind", "fields"), [(m.UserAlter, ("app", {"enabled": False})), (m.UserDelete, ("app",))]
)
def test_user_of_a_certificate_that_is_disabled_or_deleted_is_cut_off(
    kind: Any, fields: tuple[Any, ...]
) -> None:
    manager = _with_users()
    owner, app = manager.connect(), manager.connect(identity=Identity("app", EXTERNAL))
    manager.turn()
    assert app.goaway is None
    owner.ask(kind, *fields)
    assert app.goaway is not None
    late = manager.connect(identity=Identity("app", EXTERNAL))
    manager.turn()
    assert late.goaway is not None


# -- TLS


def _log_in_over_tls(server_hash: bytes, door: Door | None = None) -> Any:
    dialled = (door or Door()).dial(ENCRYPTED)
    login = ClientLogin("app", PASSWORD, NONCE, server_hash)
    hello = HELLO._replace(auth_method=login.method, auth_data=login.first())
    challenge = dialled.say(hello)
    return dialled.say(m.AuthAnswer(login.answer(challenge.data)))


def test_login_over_tls_is_bound_to_the_certificate() -> None:
    assert type(_log_in_over_tls(HASH)) is m.Welcome


def test_login_through_a_proxy_with_another_certificate_is_refused() -> None:
    assert code_of(_log_in_over_tls(b"hash of the certificate of a proxy")) == (
        ErrorCode.LOGIN_FAILED
    )


def test_binding_that_was_removed_is_refused() -> None:
    first = b"y,,n=app,r=" + NONCE.encode()
    answer = Door().dial(ENCRYPTED).say(HELLO._replace(auth_method=scram.METHOD, auth_data=first))
    assert code_of(answer) == ErrorCode.FIELD_INVALID


def test_bound_login_without_tls_is_refused() -> None:
    login = ClientLogin("app", PASSWORD, NONCE, b"hash")
    answer = Door().dial().say(HELLO._replace(auth_method=login.method, auth_data=login.first()))
    assert code_of(answer) == ErrorCode.FIELD_INVALID


HOSTILE = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from(
            [b"n", b"y", b"p=x", b"", b"n=app", b"r=" + NONCE.encode(), b"m=1", b"c=biws", b"\xff"]
        )
    ).map(b",".join),
)


@given(HOSTILE)
def test_hostile_hello_is_challenged_or_refused(data: bytes) -> None:
    dialled = Door().dial()
    answer = dialled.say(HELLO._replace(auth_method=scram.METHOD, auth_data=data))
    assert type(answer) in (m.AuthChallenge, m.Goaway)
    assert dialled.events == 0


@given(HOSTILE)
def test_hostile_answer_is_refused(data: bytes) -> None:
    dialled = Door().dial()
    dialled.begin()
    assert code_of(dialled.say(m.AuthAnswer(data))) == ErrorCode.LOGIN_FAILED
    assert dialled.events == 0


def _raw(*messages: Any) -> tuple[Dialled, bytes]:
    """Returns a connection, and frames that a hostile client sends in any order."""
    first = ClientLogin("app", PASSWORD, NONCE).first()
    hello = HELLO._replace(auth_method=scram.METHOD, auth_data=first)
    named: dict[str, Any] = {"hello": hello, "answer": m.AuthAnswer(b"x"), "status": m.Status(1)}
    frames = [encode(to_array(named[one])) for one in messages]
    return Door().dial(), b"".join(frames)


@pytest.mark.parametrize(
    "messages",
    [
        ["answer"],
        ["status"],
        ["hello", "status"],
        ["hello", "hello"],
        ["hello", "answer", "answer"],
        ["hello", "answer", "status"],
        ["answer", "hello"],
    ],
    ids="-".join,
)
def test_nothing_is_read_before_the_login(messages: list[str]) -> None:
    dialled, data = _raw(*messages)
    with suppress(StateViolation):
        dialled.peer.receive(data, 0)
        assert dialled.peer.goaway is not None
    assert not dialled.peer.is_open
    assert dialled.events == 0


# -- sessions


def test_session_does_not_resume_under_another_user() -> None:
    manager = _with_users()
    app = manager.connect(user="app")
    assert manager.connect(user="app", session=app.session).session == app.session
    for other in (manager.connect(user="other", session=app.session), manager.connect()):
        assert other.session != app.session
    assert manager.connect(session=app.session).session != app.session


def _with_users() -> Manager:
    manager = Manager()
    owner = manager.connect()
    roles = {"admin": ["administrator"], "app": ["producer"], "other": []}
    for name, held in roles.items():
        owner.ask(m.UserCreate, name, {"verifier": str(VERIFIER), "roles": held})
    return manager


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (m.UserAlter, ("app", {"enabled": False})),
        (m.UserAlter, ("app", {"verifier": str(make_verifier("new", bytes(16)))})),
        (m.UserAlter, ("app", {"verifier": ""})),
        (m.UserDelete, ("app",)),
    ],
)
def test_user_that_changes_before_the_turn_is_refused(kind: Any, fields: tuple[Any, ...]) -> None:
    """The password was proved before the change, and the broker learns of the connection later."""
    manager = _with_users()
    owner = manager.connect()
    manager.turn()
    owner.send(kind(owner.next_id(), *fields))
    app = manager.connect(user="app")
    manager.turn()
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.LOGIN_REQUIRED
    assert app.peer.number not in manager.turns.broker.sessions


def test_connection_without_a_login_is_closed_if_it_opens_after_the_first_user() -> None:
    manager = Manager()
    owner = manager.connect()
    manager.turn()
    roles = {"verifier": str(VERIFIER), "roles": ["administrator"]}
    owner.send(m.UserCreate(owner.next_id(), "admin", roles))
    late = manager.connect(identity=OPEN)
    manager.turn()
    assert late.goaway is not None
    assert owner.goaway is None


def test_identity_does_not_show_its_verifier() -> None:
    assert isinstance(LOGGED_IN.verifier, Verifier)
    shown = repr(LOGGED_IN)
    assert not any(repr(secret) in shown for secret in VERIFIER[:3])
