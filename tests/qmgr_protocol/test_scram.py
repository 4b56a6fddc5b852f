"""Logins by SCRAM-SHA-256: the vectors of RFC 7677, and hostile other ends."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import scram
from qmgr_protocol.name import NAME_MAX
from qmgr_protocol.scram import ClientLogin, ScramFailed, ServerLogin, make_verifier
from qmgr_protocol.verifier import ITERATIONS_MAX, ITERATIONS_MIN, Verifier, of_nobody

# RFC 7677, section 3
USER, PASSWORD = "user", "pencil"
SALT = b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81"
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
ANSWER = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
PROOF = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
VERIFIER = make_verifier(PASSWORD, SALT, ITERATIONS_MIN)


def server(verifier: Verifier = VERIFIER, nonce: str = SERVER_NONCE) -> ServerLogin:
    return ServerLogin(lambda user: verifier, nonce)


def client(password: str = PASSWORD, nonce: str = CLIENT_NONCE) -> ClientLogin:
    login = ClientLogin(USER, password, nonce)
    login.first()
    return login


def challenged() -> ServerLogin:
    login = server()
    login.challenge(FIRST)
    return login


def answered() -> ClientLogin:
    login = client()
    login.answer(CHALLENGE)
    return login


def test_login_is_the_one_of_rfc_7677() -> None:
    here, there = ClientLogin(USER, PASSWORD, CLIENT_NONCE), server()
    assert here.first() == FIRST
    assert there.challenge(FIRST) == CHALLENGE
    assert there.user == USER
    assert here.answer(CHALLENGE) == ANSWER
    assert there.finish(ANSWER) == PROOF
    here.check(PROOF)


def test_password_is_in_no_message_and_in_no_verifier() -> None:
    assert not any(b"pencil" in x for x in (FIRST, CHALLENGE, ANSWER, PROOF))
    assert "pencil" not in str(VERIFIER)


@pytest.mark.parametrize("password", ["Pencil", "pencil ", "x"])
def test_other_password_is_refused(password: str) -> None:
    final = client(password).answer(CHALLENGE)
    with pytest.raises(ScramFailed):
        challenged().finish(final)


def test_no_password_fits_the_verifier_of_nobody() -> None:
    login = server(of_nobody(b"secret", USER))
    final = client().answer(login.challenge(FIRST))
    with pytest.raises(ScramFailed):
        login.finish(final)


def test_server_without_the_verifier_has_no_proof() -> None:
    forged = server(make_verifier("guess", SALT, ITERATIONS_MIN))
    here = client()
    final = here.answer(forged.challenge(FIRST))
    with pytest.raises(ScramFailed):
        forged.finish(final)
    for proof in (b"", b"v=", PROOF, b"e=other-error", b"v=" + b"A" * 43 + b"="):
        here = client(nonce="anotherNonceOfTheClient")
        here.answer(CHALLENGE.replace(CLIENT_NONCE.encode(), b"anotherNonceOfTheClient"))
        with pytest.raises(ScramFailed):
            here.check(proof)


@pytest.mark.parametrize(
    "skipped", [lambda: client().check(PROOF), lambda: server().finish(ANSWER)], ids=["both", "one"]
)
def test_round_that_is_left_out_is_refused(skipped: Callable[[], Any]) -> None:
    """Neither a welcome without a challenge nor an answer without one is a login."""
    with pytest.raises(ScramFailed):
        skipped()


@pytest.mark.parametrize(
    "again",
    [
        lambda: challenged().challenge(FIRST),
        lambda: answered().answer(CHALLENGE),
        lambda: answered().answer(CHALLENGE.replace(b"i=4096", b"i=4097")),
    ],
)
def test_repeated_round_is_refused(again: Callable[[], Any]) -> None:
    with pytest.raises(ScramFailed):
        again()


def test_wrong_proof_cannot_be_followed_by_another() -> None:
    login = challenged()
    with pytest.raises(ScramFailed):
        login.finish(ANSWER.replace(b"p=d", b"p=e"))
    with pytest.raises(ScramFailed):
        login.finish(ANSWER)


def test_rounds_of_another_login_are_refused() -> None:
    with pytest.raises(ScramFailed):
        client(nonce="anotherNonceOfTheClient").answer(CHALLENGE)
    other = server(nonce="anotherNonceOfTheServer")
    other.challenge(FIRST)
    with pytest.raises(ScramFailed):  # a replay
        other.finish(ANSWER)


def test_reflected_messages_are_refused() -> None:
    for data in (FIRST, CHALLENGE, ANSWER):
        with pytest.raises(ScramFailed):
            challenged().finish(CHALLENGE if data == ANSWER else data)
        with pytest.raises(ScramFailed):
            client().answer(FIRST if data == CHALLENGE else data)
        with pytest.raises(ScramFailed):
            answered().check(data)


def test_client_computes_only_a_limited_number_of_iterations() -> None:
    for count in (ITERATIONS_MAX + 1, 10**7, 10**30, ITERATIONS_MIN - 1, 0, -1):
        with pytest.raises(ScramFailed):
            client().answer(CHALLENGE.replace(b"i=4096", f"i={count}".encode()))


def test_keys_of_a_password_and_a_salt_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A linked queue manager could make a link compute them on each connection."""
    salts: list[bytes] = []

    def pbkdf2_hmac(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        salts.append(salt)
        return kept(name, password, salt, iterations)

    kept, own = hashlib.pbkdf2_hmac, "only in this test"
    old, new = (make_verifier(own, salt, ITERATIONS_MIN) for salt in (SALT, SALT[::-1]))
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", pbkdf2_hmac)
    for verifier, nonce in ((old, "nonceA"), (old, "nonceB"), (new, "nonceC"), (old, "nonceD")):
        here, there = ClientLogin(USER, own, nonce), server(verifier, nonce)
        here.check(there.finish(here.answer(there.challenge(here.first()))))
    assert salts == [SALT, SALT[::-1]]


def test_bound_channel_without_tls_and_another_identity_are_refused() -> None:
    """This server supports neither, and a client must not believe that it does."""
    for head in (b"p=tls-unique,,", b"p=tls-server-end-point,,", b"n,a=admin,", b"n,a=user,"):
        with pytest.raises(ScramFailed):
            server().challenge(FIRST.replace(b"n,,", head, 1))


@pytest.mark.parametrize("name", ["\ufdfa" * 300, "a" * (NAME_MAX + 1), "b\u00fcro", "a=2Cb", ""])
def test_name_that_no_user_has_is_refused_before_it_is_normalized(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The normal form of the first name has 5,400 characters and takes 100 ms."""
    normalized: list[str] = []
    monkeypatch.setattr("scramp.core.saslprep", normalized.append)
    with pytest.raises(ScramFailed, match="no user has this name"):
        server().challenge(FIRST.replace(b"n=user", f"n={name}".encode()))
    assert not normalized


def bent(valid: bytes) -> st.SearchStrategy[bytes]:
    """Returns messages that are cut, repeated, reordered or changed in one place."""
    parts = valid.split(b",")
    pieces = st.lists(st.sampled_from([*parts, b"m=x", b"e=x", b"", b"a=", b"\0"]), max_size=6)
    places = st.integers(0, len(valid))
    return st.one_of(
        st.binary(max_size=100),
        places.map(lambda at: valid[:at]),
        pieces.map(b",".join),
        st.tuples(places, st.binary(max_size=8)).map(
            lambda x: valid[: x[0]] + x[1] + valid[x[0] :]
        ),
        st.tuples(places, st.binary(max_size=3)).map(
            lambda x: valid[: x[0]] + x[1] + valid[x[0] + len(x[1]) :]
        ),
    )


@given(bent(FIRST))
def test_hostile_first_message_is_challenged_or_refused(data: bytes) -> None:
    with suppress(ScramFailed):
        assert server().challenge(data).startswith(b"r=")


@given(bent(ANSWER))
def test_hostile_answer_is_refused(data: bytes) -> None:
    login = challenged()
    try:
        assert login.finish(data) == PROOF
    except ScramFailed:
        return
    assert data == ANSWER


@given(bent(CHALLENGE))
def test_hostile_challenge_is_answered_or_refused(data: bytes) -> None:
    with suppress(ScramFailed):
        assert client().answer(data).startswith(b"c=biws,r=" + CLIENT_NONCE.encode())


@given(bent(PROOF))
def test_hostile_proof_is_refused(data: bytes) -> None:
    with suppress(ScramFailed):
        answered().check(data)
        assert data == PROOF


@pytest.mark.parametrize("password", ["", "\0", "a\nb", "\u0627\u0031"])
def test_password_that_no_login_could_use_is_refused(password: str) -> None:
    with pytest.raises(ValueError, match="password"):
        make_verifier(password, SALT)
    with pytest.raises(ScramFailed):
        ClientLogin(USER, password, CLIENT_NONCE)


def test_password_is_normalized_at_both_ends() -> None:
    """RFC 4013: the roman numeral IX and the letters IX are the same password."""
    verifier = make_verifier("\u2168", SALT, ITERATIONS_MIN)
    assert verifier == make_verifier("IX", SALT, ITERATIONS_MIN)
    login = server(verifier)
    assert login.finish(client("IX").answer(login.challenge(FIRST)))


def test_method_is_the_one_in_the_hello() -> None:
    assert scram.METHOD == "scram-sha-256"
