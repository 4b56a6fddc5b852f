"""Tokens: which are valid, and that no forged one is."""

import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmgr_config.token_rule import TokenRule
from qmgrd.core.access.token import (
    TokenExpired,
    TokenKey,
    TokenRefused,
    Tokens,
    VerifiedToken,
    key_of,
)
from tests.tokens import (
    AUDIENCE,
    HOUR_S,
    ISSUER,
    NOW_MS,
    NOW_S,
    claims,
    entry,
    part,
    pem,
    private_key,
    signed,
)

SKEW_S = 30
P256, RSA, ED = private_key("p256"), private_key("rsa2048"), private_key("ed25519")
KEYS = (key_of(P256.public_key()),)


def tokens(*entries: tuple[dict[str, Any], tuple[TokenKey, ...]]) -> Tokens:
    found = entries or ((entry(), KEYS),)
    made = Tokens([TokenRule.model_validate(row) for row, _ in found])
    made.keys = [keys for _, keys in found]
    return made


def verify(token: bytes, *, wall_ms: int = NOW_MS, **others: Any) -> VerifiedToken:
    return tokens((entry(**others), KEYS)).verify(token, wall_ms)


def refusal(token: bytes, *, wall_ms: int = NOW_MS, **others: Any) -> str:
    with pytest.raises(TokenRefused) as caught:
        verify(token, wall_ms=wall_ms, **others)
    return str(caught.value)


def test_token_has_the_user_of_its_claim_and_its_end() -> None:
    assert verify(signed()) == VerifiedToken("app", (NOW_S + HOUR_S + SKEW_S) * 1_000)


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [
        *[("rsa2048", name) for name in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")],
        ("p256", "ES256"),
        ("p384", "ES384"),
        ("p521", "ES512"),
        ("ed25519", "EdDSA"),
    ],
)
def test_type_of_the_key_decides_the_algorithms(kind: str, algorithm: str) -> None:
    key = private_key(kind)
    found = tokens((entry(), (key_of(key.public_key()),)))
    assert found.verify(signed(key=key, algorithm=algorithm), NOW_MS).user == "app"
    other = private_key("ed25519" if kind != "ed25519" else "p256")
    with pytest.raises(TokenRefused, match="no key for"):
        tokens((entry(), (key_of(other.public_key()),))).verify(
            signed(key=key, algorithm=algorithm), NOW_MS
        )


def test_key_with_an_algorithm_accepts_no_other() -> None:
    found = tokens((entry(), (key_of(RSA.public_key(), "", "PS256"),)))
    assert found.verify(signed(key=RSA, algorithm="PS256"), NOW_MS).user == "app"
    with pytest.raises(TokenRefused, match="no key for algorithm 'RS256'"):
        found.verify(signed(key=RSA, algorithm="RS256"), NOW_MS)


def unsigned(header: Any, payload: Any = None, signature: bytes = b"x") -> bytes:
    return b".".join(
        (part(header), part(claims() if payload is None else payload), part(signature))
    )


def signed_with_the_public_key(secret: bytes, algorithm: str = "HS256") -> bytes:
    signing = part({"alg": algorithm}) + b"." + part(claims())
    return signing + b"." + part(hmac.new(secret, signing, hashlib.sha256).digest())


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (unsigned({"alg": "none"}), "no key"),
        (unsigned({"alg": "NONE"}), "no key"),
        (unsigned({"alg": "none"}, signature=b""), "three parts"),
        (unsigned({"typ": "JWT"}), "no key"),
        (unsigned({"alg": ["ES256"]}), "no key"),
        (unsigned({"alg": {"ES256": 1}}), "no key"),
        (unsigned({"alg": "ES256"}), "signature"),
        (unsigned({"alg": "ES256"}, signature=bytes(64)), "signature"),
        (signed_with_the_public_key(pem(P256)), "no key"),
        (signed_with_the_public_key(pem(P256).strip()), "no key"),
        (signed_with_the_public_key(pem(P256), "ES256"), "signature"),
        (signed(key=private_key("p256", 1)), "signature"),
        (signed(key=private_key("p256", 1), jwk={"kty": "EC"}), "signature"),
        (signed(key=private_key("p256", 1), jku="https://evil.example/keys"), "signature"),
        (signed(key=private_key("p256", 1), x5u="https://evil.example/keys"), "signature"),
        (signed(key=private_key("p256", 1), kid="/dev/null"), "signature"),
        (signed(key=private_key("p256", 1), kid="../../../etc/passwd"), "signature"),
        (signed(key=private_key("p256", 1), kid="' OR 1=1 --"), "signature"),
        (unsigned({"alg": "ES256", "kid": {"a": 1}}), "signature"),
        (signed(crit=["exp"], exp=1), "crit"),
        (unsigned({"alg": "ES256", "crit": []}), "crit"),
        (unsigned({"alg": "ES256", "b64": False}), "crit"),
        (signed()[:-4], "signature"),
        (signed() + b"AAAA", "signature"),
        (signed() + b".AAAA", "three parts"),
        (signed().replace(b".", b"..", 1), "three parts"),
        (signed() + b"=", "three parts"),
        (signed() + b"\n", "three parts"),
        (b" " + signed(), "three parts"),
        (b"", "three parts"),
        (b"a.b.c", "not JSON"),
        (unsigned(b"[1]"), "object"),
        (unsigned({"alg": "ES256"}, [claims()]), "object"),
        (unsigned({"alg": "ES256"}, b"[" * 1_500), "not JSON"),
        (unsigned(b"[" * 1_500), "not JSON"),
        (unsigned({"alg": "ES256"}, b'{"exp": NaN}'), "not JSON"),
        (unsigned({"alg": "ES256"}, b'{"exp": ' + b"9" * 1_900 + b"}"), "audience"),
        (unsigned({"alg": "ES256"}, b"\xff\xfe"), "not JSON"),
    ],
)
def test_forged_or_damaged_token_is_refused(token: bytes, why: str) -> None:
    assert why in refusal(token)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": "https://evil.example.org/"}, "no entry"),
        ({"iss": ISSUER.rstrip("/")}, "no entry"),
        ({"iss": ISSUER.upper()}, "no entry"),
        ({"iss": None}, "no entry"),
        ({"iss": [ISSUER]}, "no entry"),
        ({"aud": "other"}, "no entry"),
        ({"aud": ["other", "qmgrd2"]}, "no entry"),
        ({"aud": []}, "no entry"),
        ({"aud": None}, "no audience"),
        ({"aud": {AUDIENCE: 1}}, "no audience"),
        ({"aud": f"x{AUDIENCE}"}, "no entry"),
        ({"exp": None}, "no end"),
        ({"exp": "soon"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": [NOW_S + 60]}, "not a time"),
        ({"exp": 1e300}, "out of range"),
        ({"exp": 10**400}, "out of range"),
        ({"exp": -1}, "out of range"),
        ({"exp": NOW_S - SKEW_S}, "expired"),
        ({"exp": 0, "iat": 0}, "expired"),
        ({"nbf": NOW_S + SKEW_S + 1}, "only in 31000 ms (nbf)"),
        ({"nbf": "0"}, "not a time"),
        ({"iat": NOW_S + SKEW_S + 1}, "only in 31000 ms (iat)"),
        ({"iat": False}, "not a time"),
        ({"exp": NOW_S + 24 * HOUR_S + 1}, "lifetime_max_ms"),
        ({"exp": NOW_S + 24 * HOUR_S + 1, "iat": None}, "lifetime_max_ms"),
        ({"exp": NOW_S + 60, "iat": NOW_S - 24 * HOUR_S}, "lifetime_max_ms"),
    ],
)
def test_claims_are_checked(changes: dict[str, Any], why: str) -> None:
    assert why in refusal(signed(claims(**changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": [AUDIENCE]},
        {"aud": ["other", AUDIENCE]},
        {"exp": NOW_S - SKEW_S + 1},
        {"exp": NOW_S + 0.5},
        {"nbf": NOW_S + SKEW_S},
        {"iat": NOW_S + SKEW_S},
        {"iat": None},
        {"exp": NOW_S + 24 * HOUR_S},
    ],
)
def test_claims_within_their_limits_are_accepted(changes: dict[str, Any]) -> None:
    assert verify(signed(claims(**changes))).user == "app"


def test_expired_token_is_reported_as_such_only_if_its_issuer_signed_it() -> None:
    old = claims(exp=NOW_S - HOUR_S, iat=NOW_S - 2 * HOUR_S)
    with pytest.raises(TokenExpired):
        verify(signed(old))
    for token in (signed(old, private_key("p256", 1)), unsigned({"alg": "ES256"}, old)):
        with pytest.raises(TokenRefused) as caught:
            verify(token)
        assert not isinstance(caught.value, TokenExpired)


def test_skew_and_lifetime_can_be_changed() -> None:
    late = signed(claims(exp=NOW_S - 1))
    assert "expired 1000 ms ago" in refusal(late, clock_skew_ms=0)
    assert verify(late, clock_skew_ms=2_000).ends_ms == NOW_MS + 1_000
    assert "lifetime_max_ms" in refusal(signed(), lifetime_max_ms=HOUR_S * 1_000 - 1)


def test_token_of_another_entry_is_refused() -> None:
    """The keys of an issuer do not sign for another issuer, or for another audience of it."""
    other = private_key("p256", 1)
    found = tokens(
        (entry(), KEYS),
        (entry(issuer="https://other.example.org"), (key_of(other.public_key()),)),
        (entry(audience="test"), (key_of(other.public_key()),)),
    )
    assert found.verify(signed(), NOW_MS).user == "app"
    foreign = claims(iss="https://other.example.org")
    assert found.verify(signed(foreign, other), NOW_MS).user == "app"
    for forged in (signed(claims(), other), signed(foreign), signed(claims(aud="test"))):
        with pytest.raises(TokenRefused, match="signature"):
            found.verify(forged, NOW_MS)
    # The first entry decides, also about a token with several audiences.
    with pytest.raises(TokenRefused, match="signature"):
        found.verify(signed(claims(aud=[AUDIENCE, "test"]), other), NOW_MS)


def test_keys_can_be_rotated() -> None:
    old, new = private_key("p256", 1), private_key("p256", 2)
    both = tokens((entry(), (key_of(old.public_key(), "1"), key_of(new.public_key(), "2"))))
    for key, kid in ((old, "1"), (new, "2")):
        assert both.verify(signed(key=key, kid=kid), NOW_MS).user == "app"
        assert both.verify(signed(key=key), NOW_MS).user == "app"
    wrong: list[tuple[Any, str]] = [("2", "signature"), ("3", "no key"), (1, "no key")]
    for named, why in wrong:
        with pytest.raises(TokenRefused, match=why):
            both.verify(unsigned({"alg": "ES256", "kid": named}), NOW_MS)
    with pytest.raises(TokenRefused, match="signature"):
        both.verify(signed(key=old, kid="2"), NOW_MS)
    both.keys = [(key_of(new.public_key(), "2"),)]
    with pytest.raises(TokenRefused):
        both.verify(signed(key=old, kid="1"), NOW_MS)


def test_without_keys_every_token_is_refused() -> None:
    with pytest.raises(TokenRefused, match="no key"):
        Tokens([TokenRule.model_validate(entry())]).verify(signed(), NOW_MS)
    with pytest.raises(TokenRefused, match="no entry"):
        Tokens([]).verify(signed(), NOW_MS)


@pytest.mark.parametrize(
    "key",
    [
        private_key("rsa1024").public_key(),
        private_key("k1").public_key(),
        private_key("p256"),
        private_key("rsa2048"),
        b"secret",
    ],
)
def test_weak_private_or_unsupported_key_is_refused(key: Any) -> None:
    with pytest.raises(ValueError, match="key"):
        key_of(key)


def user(rows: list[tuple[str, str, str]], **others: Any) -> str:
    users = [dict(zip(("claim", "match", "user"), row, strict=True)) for row in rows]
    return verify(signed(claims(**others)), users=users).user


ROLES = [("realm_access.roles", "qmgr-*", "{1}"), ("sub", "*", "guest")]


@pytest.mark.parametrize(
    ("rows", "changes", "found"),
    [
        ([("sub", "*", "{1}")], {"sub": "billing"}, "billing"),
        ([("sub", "*", "{1}")], {"sub": "a/b"}, ""),
        ([("sub", "*", "{1}")], {"sub": "app\n"}, ""),
        ([("sub", "*", "{1}")], {"sub": "äpp"}, ""),
        ([("sub", "*", "{1}")], {"sub": ""}, ""),
        ([("sub", "*", "{1}")], {"sub": 7}, ""),
        ([("sub", "*", "{1}")], {"sub": None}, ""),
        ([("email", "*@example.org", "{1}")], {"email": "j.doe@example.org"}, "j.doe"),
        ([("email", "*@example.org", "{1}")], {"email": "admin@evil.org@example.org"}, ""),
        ([("email", "*@example.org", "{1}")], {"email": "a@example.org.evil.org"}, ""),
        ([("sub", "app", "robot")], {}, "robot"),
        ([("sub", "ap", "robot")], {}, ""),
        ([("sub", "a.p", "robot")], {}, ""),
        (ROLES, {"realm_access": {"roles": ["x", "qmgr-billing"]}}, "billing"),
        (ROLES, {"realm_access": {"roles": ["qmgr-a", "qmgr-a"]}}, "a"),
        (ROLES, {"realm_access": {"roles": ["qmgr-a", "qmgr-b"]}}, ""),
        (ROLES, {"realm_access": {"roles": ["x"]}}, "guest"),
        (ROLES, {"realm_access": {"roles": "qmgr-one"}}, "one"),
        (ROLES, {"realm_access": {"roles": [["qmgr-a"], {"qmgr-b": 1}, 7]}}, "guest"),
        (ROLES, {"realm_access": ["roles"]}, "guest"),
        ([("https://example.org/role", "*", "{1}")], {"https://example.org/role": "b"}, "b"),
        ([("a.b", "*", "{1}")], {"a.b": "whole", "a": {"b": "path"}}, "whole"),
    ],
)
def test_first_entry_that_fits_a_claim_decides(
    rows: list[tuple[str, str, str]], changes: dict[str, Any], found: str
) -> None:
    assert user(rows, **changes) == found


VALID = signed()


@given(st.binary(max_size=200))
@example(b"..")
@example(b"e30.e30.e30")
def test_random_bytes_are_refused(data: bytes) -> None:
    refusal(data)


@given(
    st.integers(0, len(VALID) - 1),
    st.integers(0, 255),
    st.sampled_from(["replace", "insert", "delete"]),
)
def test_changed_token_is_refused(at: int, byte: int, how: str) -> None:
    """Also one whose last character has other unused bits: each token has one form."""
    new = b"" if how == "delete" else bytes([byte])
    token = VALID[:at] + new + VALID[at + (how != "insert") :]
    if token != VALID:
        refusal(token)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
NAMES = ["iss", "aud", "exp", "iat", "nbf", "sub"]


@given(st.dictionaries(st.sampled_from(NAMES), JSON), st.sampled_from([None, 0, NOW_MS, 1 << 60]))
def test_signed_token_with_any_claims_has_a_user_or_is_refused(
    changes: dict[str, Any], wall_ms: int | None
) -> None:
    payload = claims() | changes
    signing = part({"alg": "EdDSA"}) + b"." + part(json.dumps(payload).encode())
    token = signing + b"." + part(ED.sign(signing))
    found = tokens((entry(), (key_of(ED.public_key()),)))
    try:
        token_found = found.verify(token, NOW_MS if wall_ms is None else wall_ms)
    except TokenRefused:
        return
    assert payload["iss"] == ISSUER
    assert AUDIENCE in payload["aud"]
    assert token_found.user == (payload["sub"] if isinstance(payload["sub"], str) else "")


def test_checks_of_a_token_are_fast() -> None:
    """A stranger makes the daemon check at most KEYS_MAX signatures."""
    found = tokens((entry(), tuple(key_of(private_key("p256", n).public_key()) for n in range(32))))
    token = signed(key=private_key("p256", 99))
    begin = time.perf_counter()
    with pytest.raises(TokenRefused, match="signature"):
        found.verify(token, NOW_MS)
    assert time.perf_counter() - begin < 1.0
