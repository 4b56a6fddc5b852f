"""Verifiers: their text, and the verifiers of users that do not exist."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import verifier as verifiers
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.verifier import ITERATIONS_MAX, ITERATIONS_MIN, TEXT_MAX, Verifier, of_nobody

SECRET = bytes(range(32))
KEYS = st.binary(min_size=32, max_size=32)
VALID = st.builds(
    Verifier,
    st.binary(min_size=12, max_size=64),
    KEYS,
    KEYS,
    st.integers(ITERATIONS_MIN, ITERATIONS_MAX),
)
# PostgreSQL stores the password "pencil" of RFC 7677 in this form.
POSTGRES = (
    "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
    "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
)


@given(VALID)
def test_text_stands_for_its_verifier(found: Verifier) -> None:
    assert verifiers.parse(str(found)) == found
    assert len(str(found)) <= TEXT_MAX


def test_verifier_of_postgresql_is_valid() -> None:
    assert str(verifiers.parse(POSTGRES)) == POSTGRES


@given(st.one_of(st.text(), VALID.map(lambda x: str(x)[:-1] + "*"), VALID.map(lambda x: f"{x} ")))
def test_other_text_is_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        verifiers.parse(text)
    assert caught.value.code == ErrorCode.VALUE_INVALID
    assert len(text) < 20 or text not in caught.value.text


def _text(salt: int = 16, stored: int = 32, server: int = 32, iterations: str = "4096") -> str:
    salted, key, other = (b64encode(bytes(size)).decode() for size in (salt, stored, server))
    return f"SCRAM-SHA-256${iterations}:{salted}${key}:{other}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (_text(iterations="4095"), "4095 iterations are out of range"),
        (_text(iterations="1000001"), "1000001 iterations are out of range"),
        (_text(iterations="10000000"), "it is not SCRAM-SHA-256"),
        (_text(salt=11), "a salt has 12 to 64 bytes, not 11"),
        (_text(salt=65), "a salt has 12 to 64 bytes, not 65"),
        (_text(stored=31), "a key does not have 32 bytes"),
        (_text(server=33), "a key does not have 32 bytes"),
        (_text().replace("AAAA", "A", 1), "a part is not base64"),
        (_text(salt=300), "it is not SCRAM-SHA-256"),
        (_text() + "\n", "it is not SCRAM-SHA-256"),
        ("md5" + "0" * 32, "it is not SCRAM-SHA-256"),
        ("", "it is not SCRAM-SHA-256"),
    ],
)
def test_verifier_that_no_login_could_use_is_refused(text: str, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        verifiers.parse(text)


@given(VALID)
def test_description_shows_neither_salt_nor_keys(found: Verifier) -> None:
    assert repr(found) == f"Verifier(iterations={found.iterations})"
    assert f"{found!r}" in f"{[found]}"


@given(st.text(max_size=30))
def test_salt_of_nobody_never_changes(user: str) -> None:
    """A salt that changes would show that the user does not exist."""
    found = of_nobody(SECRET, user)
    assert found == of_nobody(SECRET, user)
    assert verifiers.parse(str(found)) == found


@given(st.text(max_size=30), st.text(max_size=30))
def test_nobodies_have_their_own_salts_in_each_store(one: str, other: str) -> None:
    found = of_nobody(SECRET, one)
    assert (found.salt == of_nobody(SECRET, other).salt) == (one == other)
    assert found.salt != of_nobody(SECRET[::-1], one).salt
    assert len({found.salt, found.stored_key, found.server_key}) == 3
