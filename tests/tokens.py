"""Tokens (JWT) for tests: an issuer with keys, and files of its public keys."""

import json
from base64 import urlsafe_b64encode
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ISSUER, AUDIENCE = "https://login.example.org/", "qmgrd"
NOW_S = 1_795_000_000
NOW_MS = NOW_S * 1_000
HOUR_S = 3_600


@cache
def private_key(kind: str, number: int = 0) -> Any:
    """Returns a private key. Each *number* is another key; RSA keys are slow to make."""
    if kind == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    curves: dict[str, Any] = {"p256": ec.SECP256R1, "p384": ec.SECP384R1, "p521": ec.SECP521R1}
    if kind in curves:
        return ec.generate_private_key(curves[kind]())
    if kind == "k1":
        return ec.generate_private_key(ec.SECP256K1())
    return rsa.generate_private_key(65_537, int(kind.removeprefix("rsa")))


def pem(*keys: Any) -> bytes:
    """Returns the public keys of *keys* as PEM."""
    form = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
    return b"".join(key.public_key().public_bytes(*form) for key in keys)


def jwk(key: Any, **others: Any) -> dict[str, Any]:
    """Returns the public key of *key* as a JWK."""
    algorithms = jwt.algorithms
    maker: Any
    if isinstance(key, rsa.RSAPrivateKey):
        maker = algorithms.RSAAlgorithm
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        maker = algorithms.ECAlgorithm
    else:
        maker = algorithms.OKPAlgorithm
    return dict(json.loads(maker.to_jwk(key.public_key()))) | others


def jwks(*rows: dict[str, Any]) -> bytes:
    """Returns a JWKS with these keys."""
    return json.dumps({"keys": rows}).encode()


def claims(**others: Any) -> dict[str, Any]:
    """Returns the claims of a valid token of the user app. None removes a claim."""
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "app", "iat": NOW_S, "exp": NOW_S + HOUR_S}
    return {name: value for name, value in (usual | others).items() if value is not None}


def signed(
    found: dict[str, Any] | None = None, key: Any = None, algorithm: str = "ES256", **headers: Any
) -> bytes:
    """Returns a token with these claims."""
    key = key or private_key("p256")
    payload = json.dumps(claims() if found is None else found).encode()
    return jwt.PyJWS().encode(payload, key, algorithm, headers).encode()


def part(value: Any) -> bytes:
    """Returns a part of a token. Values that are not bytes are encoded as JSON."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(data).rstrip(b"=")


def entry(keys_file: Path | str = "/keys.pem", **others: Any) -> dict[str, Any]:
    """Returns an entry of auth.tokens, which maps sub to the user of the same name."""
    return {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "keys_file": str(keys_file),
        "users": [{"claim": "sub", "match": "*", "user": "{1}"}],
    } | others
