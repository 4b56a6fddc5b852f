"""The login of a link at the queue manager that it dials, and hostile queue managers there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_config.model import LimitsConfig
from qmgr_protocol import messages as m
from qmgr_protocol import scram
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgr_protocol.frame import FrameDecoder, encode
from qmgr_protocol.layout import parse, to_array
from qmgr_protocol.scram import ClientLogin, ServerLogin, make_verifier
from qmgr_protocol.token_login import TokenLogin, remaining_time
from qmgrd.core.access.token_renewal import RENEWAL_ID, OwnLogin
from qmgrd.core.context.context import Dial
from qmgrd.core.intake import Intake
from qmgrd.core.peer import Peer
from qmgrd.core.sessions.session_token import SessionTokens
from tests.qmgrd.core.harness import SECRET

VERIFIER = make_verifier("secret", bytes(16))
OWN = m.Welcome(1, "QM1", b"S" * 16, 7)
WELCOME = m.Welcome(1, "NYC", b"F" * 16, 7)
STATUS = m.Status(1)


class Dialled:
    """A connection that a link dialled. The far end may send anything."""

    def __init__(self, password: str = "secret", token: TokenLogin | None = None) -> None:
        login: OwnLogin | None = token
        if password and token is None:
            login = ClientLogin("QM1", password, "nonceOfTheLink")
        self.intake = Intake()
        tokens = SessionTokens(SECRET, b"salt")
        dial = Dial("NYC", "nyc:1", 1)
        self.peer = Peer(1, self.intake, LimitsConfig(), OWN, tokens, 0, dial=dial, own_login=login)
        self._decoder = FrameDecoder(1 << 20)
        (self.hello,) = self._read(self.peer.hello())
        self.far = ServerLogin(lambda user: VERIFIER, "nonceOfTheServer")

    def _read(self, data: bytes) -> list[Any]:
        self._decoder.feed(data)
        return [parse(array) for array, _ in self._decoder.drain()]

    def hear(self, *messages: Any) -> list[Any]:
        """Receives messages in one read. Returns the answers."""
        data = b"".join(encode(to_array(message)) for message in messages)
        return self._read(self.peer.receive(data, 0))

    def tick(self, now_ms: int) -> list[Any]:
        """Returns what the link sends at *now_ms*."""
        own = self.peer.renewal.own
        token = own.renewal(now_ms) if own is not None and self.peer.is_open else b""
        return self._read(self.peer.renew(token)) if token else []

    def fails(self, *messages: Any) -> ErrorCode:
        """Returns the code with which the link ends the connection."""
        with pytest.raises(RemoteProtocolError) as caught:
            self.hear(*messages)
        assert not list(self.intake.take(10, 1 << 20)), "the broker has learned of it"
        return caught.value.code

    def challenge(self) -> m.AuthChallenge:
        return m.AuthChallenge(self.far.challenge(self.hello.auth_data))


def test_link_proves_its_password_and_checks_the_proof_of_its_peer() -> None:
    dialled = Dialled()
    assert dialled.hello.auth_method == scram.METHOD
    (answer,) = dialled.hear(dialled.challenge())
    assert dialled.hear(WELCOME._replace(auth_data=dialled.far.finish(answer.data))) == []
    assert len(list(dialled.intake.take(10, 1 << 20))) == 1
    assert dialled.far.user == "QM1"


def test_link_without_a_login_is_welcomed_without_a_proof() -> None:
    dialled = Dialled(password="")
    assert (dialled.hello.auth_method, dialled.hello.auth_data) == ("none", b"")
    dialled.hear(WELCOME)
    assert len(list(dialled.intake.take(10, 1 << 20))) == 1


def test_challenge_to_a_link_without_a_login_is_refused() -> None:
    challenge = m.AuthChallenge(b"r=xy,s=AAAAAAAAAAAAAAAAAAAAAA==,i=4096")
    assert Dialled(password="").fails(challenge) == ErrorCode.LOGIN_FAILED


@pytest.mark.parametrize("proof", [b"", b"v=AAAA", b"e=other-error", b"\xff"])
@pytest.mark.parametrize("is_challenged", [True, False])
def test_peer_without_the_verifier_is_refused(proof: bytes, is_challenged: bool) -> None:
    """Nothing that it sends after its welcome reaches the broker."""
    dialled = Dialled()
    if is_challenged:
        dialled.hear(dialled.challenge())
    code = dialled.fails(WELCOME._replace(auth_data=proof), STATUS)
    assert code == ErrorCode.LOGIN_FAILED


def test_request_before_the_welcome_is_refused() -> None:
    dialled = Dialled()
    assert dialled.fails(STATUS) == ErrorCode.STATE_VIOLATION
    dialled = Dialled()
    assert dialled.fails(dialled.challenge(), STATUS) == ErrorCode.STATE_VIOLATION


def test_second_challenge_is_refused() -> None:
    dialled = Dialled()
    challenge = dialled.challenge()
    dialled.hear(challenge)
    assert dialled.fails(challenge) in (ErrorCode.LOGIN_FAILED, ErrorCode.STATE_VIOLATION)


@given(st.binary(max_size=120))
def test_hostile_challenge_is_refused(data: bytes) -> None:
    assert Dialled().fails(m.AuthChallenge(data)) == ErrorCode.LOGIN_FAILED


@given(st.binary(max_size=120))
def test_hostile_proof_is_refused(data: bytes) -> None:
    dialled = Dialled()
    assert dialled.fails(WELCOME._replace(auth_data=data)) == ErrorCode.LOGIN_FAILED


def test_hello_that_is_sent_back_is_no_challenge() -> None:
    dialled = Dialled()
    assert dialled.fails(m.AuthChallenge(dialled.hello.auth_data)) == ErrorCode.LOGIN_FAILED


def with_token() -> tuple[Dialled, list[bytes]]:
    present = [b"old.to.ken"]
    dialled = Dialled(token=TokenLogin(present[0], lambda: present[0]))
    assert (dialled.hello.auth_method, dialled.hello.auth_data) == ("token", b"old.to.ken")
    return dialled, present


def test_link_renews_its_token_and_the_broker_does_not_learn_of_it() -> None:
    dialled, present = with_token()
    dialled.hear(WELCOME._replace(auth_data=remaining_time(100_000)))
    assert len(list(dialled.intake.take(10, 1 << 20))) == 1
    present[0] = b"new.to.ken"
    assert dialled.tick(79_999) == []
    assert dialled.tick(80_000) == [m.TokenRenew(RENEWAL_ID, b"new.to.ken")]
    assert dialled.hear(m.Error(RENEWAL_ID, ErrorCode.LOGIN_FAILED, 2)) == []
    assert dialled.tick(84_000) == [m.TokenRenew(RENEWAL_ID, b"new.to.ken")]
    assert dialled.hear(m.Ok(RENEWAL_ID, 100_000)) == []
    present[0] = b"third.to.ken"
    assert dialled.tick(79_999) == []
    assert not list(dialled.intake.take(10, 1 << 20))
    dialled.hear(m.Ok(1, None))
    assert len(list(dialled.intake.take(10, 1 << 20))) == 1


@pytest.mark.parametrize("proof", [b"", b"v=AAAA", bytes(7)])
def test_peer_that_does_not_know_tokens_is_refused(proof: bytes) -> None:
    dialled, _ = with_token()
    assert dialled.fails(WELCOME._replace(auth_data=proof), STATUS) == ErrorCode.LOGIN_FAILED


def test_challenge_to_a_link_with_a_token_is_refused() -> None:
    dialled, _ = with_token()
    assert dialled.fails(m.AuthChallenge(b"r=xy")) == ErrorCode.LOGIN_FAILED


def test_answer_to_a_renewal_that_was_not_sent_changes_nothing() -> None:
    dialled, present = with_token()
    dialled.hear(WELCOME._replace(auth_data=remaining_time(100_000)), m.Ok(RENEWAL_ID, 1))
    present[0] = b"new.to.ken"
    assert dialled.tick(79_999) == []
    dialled = Dialled(password="")
    dialled.hear(WELCOME, m.Ok(RENEWAL_ID, 1))
    assert dialled.tick(1 << 40) == []
