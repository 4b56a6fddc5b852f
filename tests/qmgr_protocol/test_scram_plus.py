"""Logins by SCRAM-SHA-256-PLUS: bound to the certificate of the server.

The other end is a second implementation, made of RFC 5802 with the standard library only.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given

from qmgr_protocol.scram import (
    METHOD,
    PLUS_METHOD,
    ClientLogin,
    ScramFailed,
    ServerLogin,
    make_verifier,
)
from tests.qmgr_protocol.test_scram import bent

USER, PASSWORD, SALT, ROUNDS = "user", "pencil", bytes(range(16)), 4096
HASH, OTHER_HASH = bytes(range(32)), bytes(range(1, 33))
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj"
HEAD = b"p=tls-server-end-point,,"
BARE = f"n={USER},r={CLIENT_NONCE}".encode()
VERIFIER = make_verifier(PASSWORD, SALT, ROUNDS)


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()


class Reference:
    """The keys and proofs of RFC 5802, section 3."""

    def __init__(self, head: bytes, bound: bytes, challenge: bytes, password: str = PASSWORD):
        parts = dict(part.split(b"=", 1) for part in challenge.split(b","))
        salted = hashlib.pbkdf2_hmac(
            "sha256", password.encode(), b64decode(parts[b"s"]), int(parts[b"i"])
        )
        key = mac(salted, b"Client Key")
        stored = hashlib.sha256(key).digest()
        without_proof = b"c=" + b64encode(head + bound) + b",r=" + parts[b"r"]
        covered = b",".join((BARE, challenge, without_proof))
        signature = mac(stored, covered)
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        self.answer = without_proof + b",p=" + b64encode(proof)
        self.proof = b"v=" + b64encode(mac(mac(salted, b"Server Key"), covered))


def server(server_hash: bytes = HASH, method: str = PLUS_METHOD) -> ServerLogin:
    return ServerLogin(lambda user: VERIFIER, SERVER_NONCE, server_hash, method)


def client(server_hash: bytes = HASH) -> ClientLogin:
    login = ClientLogin(USER, PASSWORD, CLIENT_NONCE, server_hash)
    login.first()
    return login


CHALLENGE = server().challenge(HEAD + BARE)
RIGHT = Reference(HEAD, HASH, CHALLENGE)


def challenged() -> ServerLogin:
    login = server()
    login.challenge(HEAD + BARE)
    return login


def test_server_agrees_with_another_implementation() -> None:
    assert challenged().finish(RIGHT.answer) == RIGHT.proof


def test_client_agrees_with_another_implementation() -> None:
    login = ClientLogin(USER, PASSWORD, CLIENT_NONCE, HASH)
    assert (login.method, login.first()) == (PLUS_METHOD, HEAD + BARE)
    assert login.answer(CHALLENGE) == RIGHT.answer
    login.check(RIGHT.proof)


def test_client_without_tls_is_not_bound() -> None:
    login = ClientLogin(USER, PASSWORD, CLIENT_NONCE)
    assert (login.method, login.first()) == (METHOD, b"n,," + BARE)


def test_proxy_with_another_certificate_is_refused() -> None:
    """The client sees the certificate of the proxy, and trusts it."""
    final = client(OTHER_HASH).answer(CHALLENGE)
    with pytest.raises(ScramFailed, match="bindings"):
        challenged().finish(final)


@pytest.mark.parametrize("head", [b"n,,", b"y,,", b"p=tls-unique,,", b"p=tls-exporter,,", b",,"])
def test_proxy_that_removes_the_binding_is_refused(head: bytes) -> None:
    """The proof covers the choice of the mechanism."""
    login = server(method=METHOD)
    with suppress(ScramFailed):
        login.challenge(head + BARE)
    with pytest.raises(ScramFailed):
        login.finish(RIGHT.answer)


def test_proxy_that_replaces_the_bound_data_is_refused() -> None:
    other = b"c=" + b64encode(HEAD + OTHER_HASH)
    mine = b"c=" + b64encode(HEAD + HASH)
    final = client(OTHER_HASH).answer(CHALLENGE)
    assert other in final
    with pytest.raises(ScramFailed):
        challenged().finish(final.replace(other, mine))


def test_client_that_believes_that_the_server_cannot_bind_is_refused() -> None:
    with pytest.raises(ScramFailed):
        server(method=METHOD).challenge(b"y,," + BARE)


def test_client_that_cannot_bind_may_log_in_by_the_method_without_binding() -> None:
    login = server(method=METHOD)
    found = Reference(b"n,,", b"", login.challenge(b"n,," + BARE))
    assert login.finish(found.answer) == found.proof
    with pytest.raises(ScramFailed):
        server().challenge(b"n,," + BARE)


def test_binding_without_a_certificate_is_refused() -> None:
    with pytest.raises(ScramFailed, match="TLS"):
        server(b"")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: server().finish(RIGHT.answer),
        lambda: challenged().challenge(HEAD + BARE),
        lambda: challenged().finish(CHALLENGE),
        lambda: challenged().finish(RIGHT.answer.rpartition(b",")[0]),
        lambda: challenged().finish(b",".join(reversed(RIGHT.answer.split(b",")))),
        lambda: challenged().finish(RIGHT.answer + b",x=y"),
        lambda: challenged().finish(Reference(HEAD, HASH, CHALLENGE, "pencils").answer),
        lambda: client().answer(HEAD + BARE),
        lambda: client().check(RIGHT.proof),
    ],
    ids=[
        "no-challenge",
        "two-firsts",
        "reflected",
        "truncated",
        "reordered",
        "extended",
        "other-password",
        "reflected-to-the-client",
        "no-answer",
    ],
)
def test_round_that_is_wrong_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ScramFailed):
        wrong()


def test_answer_of_another_login_is_refused() -> None:
    again = ServerLogin(lambda user: VERIFIER, "anotherNonce", HASH, PLUS_METHOD)
    again.challenge(HEAD + BARE)
    with pytest.raises(ScramFailed):
        again.finish(RIGHT.answer)


@given(bent(HEAD + BARE))
def test_hostile_first_message_is_challenged_or_refused(data: bytes) -> None:
    with suppress(ScramFailed):
        assert server().challenge(data).startswith(b"r=")
        assert data.startswith(HEAD)


@given(bent(RIGHT.answer))
def test_hostile_answer_is_refused(data: bytes) -> None:
    with suppress(ScramFailed):
        assert challenged().finish(data) == RIGHT.proof
        assert data == RIGHT.answer


@given(bent(CHALLENGE))
def test_hostile_challenge_is_answered_or_refused(data: bytes) -> None:
    with suppress(ScramFailed):
        assert client().answer(data).startswith(b"c=")
