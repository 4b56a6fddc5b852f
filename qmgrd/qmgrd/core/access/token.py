"""Verifies tokens (JWT, RFC 7519) and finds their users ([[auth.tokens]]).

    token ─▶ format ─▶ entry with its iss and aud ─▶ signature by a key of the entry
          ─▶ exp, nbf, iat, lifetime ─▶ user of a claim

The claims choose the entry before they are verified, and only the keys of this entry are tried. The
signature covers the same bytes, so a forged claim fails there.

The key decides which algorithms may have signed a token, never the token itself. No symmetric
algorithm exists here, so neither "none" nor a public key as the secret of HS256 can pass. The
header selects at most one of the known keys (kid). Keys and addresses in a header are never used.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from qmgr_config.token_rule import TokenRule
from qmgrd.core.access.certificate import pattern_of, user_of_fit

KEYS_MAX = 32  # keys of an entry, because a token may be checked with each of them
RSA_MIN_BITS = 2_048
_TOKEN = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
_TIME_END = 1 << 53  # end of the times that a JSON number represents exactly, in seconds
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class TokenKey(NamedTuple):
    """A public key of an issuer."""

    key: Any  # public key of the library cryptography
    algorithms: tuple[str, ...]  # algorithms with which its private key may sign
    kid: str = ""  # name of the key in headers, or "" if it has none


class VerifiedToken(NamedTuple):
    """A verified token."""

    user: str  # user to which its claims lead, or ""
    ends_ms: int  # wall-clock time from which the token is not accepted, in ms


class TokenRefused(Exception):
    """The token is not valid. The text is for operators only."""


class TokenExpired(TokenRefused):
    """The token was valid, and has expired."""


def key_of(key: Any, kid: str = "", algorithm: str = "") -> TokenKey:
    """Returns a public key with its algorithms.

    Args:
        key: A public key of the library cryptography.
        kid: The name of the key, or "".
        algorithm: The only algorithm for which the issuer uses the key, or "".

    Raises:
        ValueError: The key is not a public key, is too short, or its type is not supported.
    """
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < RSA_MIN_BITS:
            raise ValueError(f"an RSA key has {key.key_size} bits; at least {RSA_MIN_BITS} needed")
        algorithms: tuple[str, ...] = _RSA
    elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        algorithms = (_CURVES[key.curve.name],)
    elif isinstance(key, ed25519.Ed25519PublicKey):
        algorithms = ("EdDSA",)
    else:
        raise ValueError("a key is not a public key of RSA, P-256, P-384, P-521 or Ed25519")
    if algorithm:
        if algorithm not in algorithms:
            raise ValueError(f"a key has the algorithm {algorithm[:40]!r}, which does not fit it")
        algorithms = (algorithm,)
    return TokenKey(key, algorithms, kid)


class Tokens:
    """The issuers of tokens, with their present keys.

    Invariant: ``keys`` has the keys of each entry, in the order of the entries.
    """

    def __init__(self, configured: Sequence[TokenRule]) -> None:
        """Starts without keys, so that every token is refused."""
        self.entries = configured
        self.keys: list[tuple[TokenKey, ...]] = [() for _ in configured]
        self._users = [
            [(one.claim, pattern_of(one.match), one.user) for one in entry.users]
            for entry in configured
        ]

    def verify(self, token: bytes, wall_ms: int) -> VerifiedToken:
        """Returns the verified *token*.

        Args:
            token: The compact form of the token.
            wall_ms: The wall-clock time.

        Raises:
            TokenExpired: The token is valid except for its end.
            TokenRefused: The token is not valid.
        """
        header, claims = _read(token)
        number = self._entry_of(claims)
        self._check_signature(token, header, self.keys[number])
        ends_ms = _check_times(claims, self.entries[number], wall_ms)
        return VerifiedToken(self._user_of(number, claims), ends_ms)

    def _entry_of(self, claims: dict[str, Any]) -> int:
        issuer, audience = claims.get("iss"), claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list):
            raise TokenRefused("the token has no audience (aud)")
        for number, entry in enumerate(self.entries):
            if issuer == entry.issuer and any(one in audiences for one in entry.audience):
                return number
        why = f"issuer {str(issuer)[:200]!r} and audience {str(audience)[:200]!r}"
        raise TokenRefused(f"no entry of auth.tokens has {why}")

    def _check_signature(
        self, token: bytes, header: dict[str, Any], keys: tuple[TokenKey, ...]
    ) -> None:
        from jwt import PyJWS  # imported at the start if tokens are configured (token_keys.py)

        algorithm, kid = str(header.get("alg")), header.get("kid")
        usable = [key for key in keys if algorithm in key.algorithms]
        if kid is not None:
            usable = [key for key in usable if key.kid == kid] or [
                key for key in usable if not key.kid
            ]
        if not usable:
            why = f"algorithm {algorithm[:40]!r} and kid {str(kid)[:100]!r}"
            raise TokenRefused(f"the issuer has no key for {why}")
        for key in usable:
            try:
                PyJWS([algorithm]).decode_complete(token, key.key, [algorithm])
            except Exception:  # The library has several errors for a damaged signature.
                continue
            return
        raise TokenRefused("the signature is wrong")

    def _user_of(self, number: int, claims: dict[str, Any]) -> str:
        """Returns the user of a token, or "" if it has none or several."""
        for claim, pattern, user in self._users[number]:
            fits = map(pattern.fullmatch, _values(claims, claim))
            found = {user_of_fit(user, fit) for fit in fits if fit}
            if found:
                return found.pop() if len(found) == 1 else ""
        return ""


def _read(token: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the header and the claims, which are not verified yet."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        raise TokenRefused("this is not a token of three parts")
    try:
        header, claims = (
            json.loads(urlsafe_b64decode(part + b"=="), parse_constant=_refuse_constant)
            for part in parts.groups()
        )
    except (ValueError, RecursionError):
        raise TokenRefused("the header or the claims are not JSON") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenRefused("the header or the claims are not an object")
    if "crit" in header or "b64" in header:
        raise TokenRefused("the header requires an extension (crit, b64)")
    return header, claims


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity are not JSON.


def _check_times(claims: dict[str, Any], entry: TokenRule, wall_ms: int) -> int:
    """Returns the wall-clock time at which the token ends, with the skew."""
    ends_ms, skew_ms, max_ms = _time(claims, "exp"), entry.clock_skew_ms, entry.lifetime_max_ms
    if ends_ms is None:
        raise TokenRefused("the token has no end (exp)")
    issued_ms, starts_ms = _time(claims, "iat"), _time(claims, "nbf")
    begins_ms = wall_ms if issued_ms is None else issued_ms
    for name, time_ms in (("iat", issued_ms), ("nbf", starts_ms)):
        if time_ms is not None and time_ms > wall_ms + skew_ms:
            raise TokenRefused(f"the token is valid only in {time_ms - wall_ms} ms ({name})")
    if ends_ms - begins_ms > max_ms:
        why = f"{ends_ms - begins_ms} ms, but lifetime_max_ms is {max_ms}"
        raise TokenRefused(f"the token is valid for {why}")
    if wall_ms >= ends_ms + skew_ms:
        raise TokenExpired(f"the token expired {wall_ms - ends_ms} ms ago (exp)")
    return ends_ms + skew_ms


def _time(claims: dict[str, Any], name: str) -> int | None:
    """Returns a time in ms, or None if the token does not have it."""
    value = claims.get(name)
    if value is None and name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TokenRefused(f"{name} is not a time")
    if not 0 <= value < _TIME_END:
        raise TokenRefused(f"{name} is out of range")
    return int(value * 1_000)


def _values(claims: dict[str, Any], path: str) -> Iterator[str]:
    """Yields the texts of the claim *path*. A name that contains dots comes before a path."""
    found: Any = claims
    for name in (path,) if path in claims else path.split("."):
        if not isinstance(found, dict):
            return
        found = found.get(name)
    for value in found if isinstance(found, list) else [found]:
        if isinstance(value, str):
            yield value
