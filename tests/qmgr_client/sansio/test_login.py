"""The login of a client, and queue managers that cannot prove who they are."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import Disconnected, Ready
from qmgr_protocol import messages as m
from qmgr_protocol import scram
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, LocalProtocolError
from qmgr_protocol.frame import encode
from qmgr_protocol.layout import to_array
from qmgr_protocol.scram import ClientLogin, ServerLogin, make_verifier
from qmgr_protocol.states import Side
from qmgr_protocol.token_login import TokenLogin, remaining_time
from qmgr_protocol.verifier import Verifier
from tests.qmgr_client.scripted import PRODUCER

VERIFIER = make_verifier("secret", bytes(16))
FORGED = make_verifier("guess", bytes(16))
WELCOME = m.Welcome(1, "QM1", b"s" * 16, 1)
REFUSALS = {ErrorCode.LOGIN_FAILED, ErrorCode.STATE_VIOLATION}


def new_login(server_hash: bytes) -> ClientLogin:
    return ClientLogin("app", "secret", "nonce1", server_hash)


class Dialled:
    """A client that logs in, and the far end, which may send anything."""

    def __init__(self, server_hash: bytes = b"") -> None:
        self.core = ClientCore("app", PRODUCER, new_login=new_login)
        self.core.put("Q", b"record")
        self.core.connected(0, server_hash)
        self._far = Connection(Side.LISTENER)
        self.hello = self.hear()[0]

    def hear(self) -> list[Any]:
        found = []
        while data := self.core.data_to_send(0):
            found += [message for message, _ in self._far.receive(data, 0)]
        return found

    def say(self, *messages: Any) -> list[Any]:
        """Sends messages, also those that break the protocol. Returns what the client sends."""
        for message in messages:
            with suppress(LocalProtocolError):
                self._far.send(message)
            self.core.receive(encode(to_array(message)), 0)
        return self.hear()

    @property
    def code(self) -> ErrorCode:
        """The code with which the client ended."""
        assert self.core.failed is not None
        assert not any(isinstance(event, Ready) for event in self.core.events())
        return ErrorCode(self.core.failed.code)


def server(verifier: Verifier = VERIFIER) -> ServerLogin:
    return ServerLogin(lambda user: verifier, "nonceOfTheServer")


def test_login_over_tls_is_bound_to_the_certificate() -> None:
    dialled = Dialled(b"hash of the certificate")
    far = ServerLogin(
        lambda user: VERIFIER, "nonceOfTheServer", b"hash of the certificate", scram.PLUS_METHOD
    )
    assert dialled.hello.auth_method == scram.PLUS_METHOD
    (answer,) = dialled.say(m.AuthChallenge(far.challenge(dialled.hello.auth_data)))
    dialled.say(WELCOME._replace(auth_data=far.finish(answer.data)))
    assert dialled.core.is_open


def test_client_logs_in_and_checks_the_proof_of_the_queue_manager() -> None:
    dialled, far = Dialled(), server()
    assert dialled.hello.auth_method == scram.METHOD
    (answer,) = dialled.say(m.AuthChallenge(far.challenge(dialled.hello.auth_data)))
    assert type(answer) is m.AuthAnswer
    assert not dialled.core.is_open
    sent = dialled.say(WELCOME._replace(auth_data=far.finish(answer.data)))
    assert dialled.core.is_open
    assert type(sent[0]) is m.ProducerOpen


def test_client_without_a_user_sends_no_login() -> None:
    core = ClientCore("app", PRODUCER)
    core.connected(0)
    ((hello, _),) = Connection(Side.LISTENER).receive(core.data_to_send(0), 0)
    assert isinstance(hello, m.Hello)
    assert (hello.auth_method, hello.auth_data) == ("none", b"")


@pytest.mark.parametrize("proof", [b"", b"v=", b"v=AAAA", b"e=unknown-user", b"\xff"])
def test_welcome_without_a_challenge_is_refused(proof: bytes) -> None:
    """An attacker between the two ends may have removed the login from the hello."""
    dialled = Dialled()
    sent = dialled.say(WELCOME._replace(auth_data=proof))
    assert dialled.code == ErrorCode.LOGIN_FAILED
    assert [type(message) for message in sent] == [m.Goaway]
    assert not [x for x in sent if type(x) in (m.ProducerOpen, m.Put)]


def test_welcome_without_the_proof_is_refused_after_a_challenge() -> None:
    for proof in (b"", b"v=AAAA", server(FORGED).challenge(Dialled().hello.auth_data)):
        dialled, far = Dialled(), server()
        dialled.say(m.AuthChallenge(far.challenge(dialled.hello.auth_data)))
        sent = dialled.say(WELCOME._replace(auth_data=proof))
        assert dialled.code == ErrorCode.LOGIN_FAILED
        assert [type(message) for message in sent] == [m.Goaway]


def test_queue_manager_without_the_verifier_is_refused() -> None:
    """It can send a challenge, but neither check the answer nor make the proof."""
    dialled, far, other = Dialled(), server(FORGED), server(FORGED)
    first = dialled.hello.auth_data
    dialled.say(m.AuthChallenge(far.challenge(first)))
    forger = ClientLogin("app", "guess", "nonce1")
    forger.first()
    proof = other.finish(forger.answer(other.challenge(first)))
    dialled.say(WELCOME._replace(auth_data=proof))
    assert dialled.code == ErrorCode.LOGIN_FAILED


def test_challenge_to_a_client_without_a_user_is_refused() -> None:
    core = ClientCore("app", PRODUCER)
    core.connected(0)
    core.receive(encode(to_array(m.AuthChallenge(b"r=x,s=x,i=4096"))), 0)
    assert core.failed is not None
    assert core.failed.code == ErrorCode.LOGIN_FAILED


def test_second_challenge_is_refused() -> None:
    """Otherwise a stranger could make a client spend its time on passwords."""
    dialled, far = Dialled(), server()
    challenge = m.AuthChallenge(far.challenge(dialled.hello.auth_data))
    sent = dialled.say(challenge, challenge)
    assert dialled.code in REFUSALS
    assert sum(type(message) is m.AuthAnswer for message in sent) == 1


def test_challenge_with_too_many_iterations_is_refused() -> None:
    dialled = Dialled()
    data = server().challenge(dialled.hello.auth_data).replace(b"i=15000", b"i=9000000")
    dialled.say(m.AuthChallenge(data))
    assert dialled.code == ErrorCode.LOGIN_FAILED


@given(st.binary(max_size=120))
def test_hostile_challenge_is_refused(data: bytes) -> None:
    dialled = Dialled()
    dialled.say(m.AuthChallenge(data))
    assert dialled.code == ErrorCode.LOGIN_FAILED


def test_own_hello_is_no_challenge() -> None:
    dialled = Dialled()
    dialled.say(m.AuthChallenge(dialled.hello.auth_data))
    assert dialled.code == ErrorCode.LOGIN_FAILED


def test_each_connection_has_a_new_login() -> None:
    nonces = iter(("nonce1", "nonce2"))
    core = ClientCore("app", PRODUCER, new_login=lambda _: ClientLogin("app", "x", next(nonces)))
    hellos = set()
    for _ in range(2):
        core.connected(0)
        ((hello, _),) = Connection(Side.LISTENER).receive(core.data_to_send(0), 0)
        assert isinstance(hello, m.Hello)
        hellos.add(hello.auth_data)
        core.connection_lost()
    assert hellos == {b"n,,n=app,r=nonce1", b"n,,n=app,r=nonce2"}


def test_password_that_cannot_be_read_ends_the_client() -> None:
    def unreadable(server_hash: bytes) -> ClientLogin:
        raise ValueError("cannot read the password file /p")

    core = ClientCore("app", PRODUCER, new_login=unreadable)
    core.connected(0)
    assert core.failed is not None
    assert core.failed.code == ErrorCode.LOGIN_FAILED
    assert "cannot read the password file /p" in str(core.failed)
    assert core.data_to_send(0) == b""


# -- tokens

OLD, NEW = b"old.to.ken", b"new.to.ken"


class Tokens:
    """The file of a token, and a client that logs in with it."""

    def __init__(self, *, is_renewable: bool = True) -> None:
        self.present = OLD
        read = (lambda: self.present) if is_renewable else None
        self.core = ClientCore("app", PRODUCER, new_login=lambda _: TokenLogin(self.present, read))
        self.now_ms = 0
        self.dial()

    def dial(self) -> None:
        self.core.connected(self.now_ms)
        self._far = Connection(Side.LISTENER)
        (self.hello,) = self.hear()

    def hear(self) -> list[Any]:
        data = self.core.data_to_send(self.now_ms)
        return [message for message, _ in self._far.receive(data, self.now_ms)]

    def say(self, message: Any) -> list[Any]:
        self.core.receive(self._far.send(message), self.now_ms)
        return self.hear()

    def welcome(self, remaining_ms: int = 100_000) -> None:
        self.say(WELCOME._replace(auth_data=remaining_time(remaining_ms)))
        assert self.core.is_open

    def at(self, now_ms: int) -> list[Any]:
        """Returns what the client sends at its next poll, apart from pings."""
        self.now_ms = now_ms
        self.say(m.Ping(1))
        self.core.poll(now_ms)
        return [message for message in self.hear() if type(message) is not m.Ping]


def test_client_sends_its_token_in_the_hello() -> None:
    tokens = Tokens()
    assert (tokens.hello.auth_method, tokens.hello.auth_data) == ("token", OLD)


@pytest.mark.parametrize("proof", [b"", b"v=AAAA", bytes(7), bytes(9)])
def test_welcome_without_the_remaining_time_is_refused(proof: bytes) -> None:
    tokens = Tokens()
    sent = tokens.say(WELCOME._replace(auth_data=proof))
    assert [type(message) for message in sent] == [m.Goaway]
    assert tokens.core.failed is not None
    assert tokens.core.failed.code == ErrorCode.LOGIN_FAILED


def test_client_renews_its_token_and_no_request_has_the_same_id() -> None:
    tokens = Tokens()
    tokens.welcome()
    tokens.present = NEW
    assert tokens.at(79_999) == []
    (renewal,) = tokens.at(80_000)
    assert renewal.token == NEW
    tokens.core.request(80_000, m.QueueList)
    (other,) = tokens.hear()
    assert other.request_id != renewal.request_id
    tokens.say(m.Ok(renewal.request_id, 100_000))
    tokens.present = OLD
    assert tokens.at(159_999) == []
    assert [message.token for message in tokens.at(160_000)] == [OLD]


@pytest.mark.parametrize("code", [ErrorCode.LOGIN_FAILED, ErrorCode.LOGINS_DELAYED])
def test_refused_renewal_is_repeated_and_ends_nothing(code: ErrorCode) -> None:
    tokens = Tokens()
    tokens.welcome()
    tokens.present = NEW
    (renewal,) = tokens.at(80_000)
    tokens.say(m.Error(renewal.request_id, code, 2))
    assert tokens.core.is_open
    assert [message.token for message in tokens.at(84_000)] == [NEW]


def test_late_answer_of_an_earlier_connection_changes_nothing() -> None:
    tokens = Tokens()
    tokens.welcome()
    tokens.present = NEW
    (renewal,) = tokens.at(80_000)
    tokens.core.connection_lost()
    tokens.dial()
    assert tokens.hello.auth_data == NEW
    tokens.welcome()
    tokens.say(m.Ok(renewal.request_id, 1))
    tokens.present = OLD
    assert tokens.at(159_999) == []


@pytest.mark.parametrize("is_renewable", [True, False])
@pytest.mark.parametrize("is_welcomed", [True, False])
def test_client_with_a_file_connects_again_after_the_end_of_its_token(
    is_renewable: bool, is_welcomed: bool
) -> None:
    tokens = Tokens(is_renewable=is_renewable)
    if is_welcomed:
        tokens.welcome()
    tokens.say(m.Goaway(ErrorCode.TOKEN_EXPIRED, "the token has expired", 1_000))
    assert (tokens.core.failed is None) is is_renewable
    found = [event for event in tokens.core.events() if isinstance(event, Disconnected)]
    assert [event.retry_after_ms for event in found] == [1_000] * is_renewable
