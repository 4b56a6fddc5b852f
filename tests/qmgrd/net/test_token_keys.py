"""The files of issuers' public keys: what is refused, and when they are read again."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from structlog.testing import capture_logs

from qmgr_config.token_rule import TokenRule
from qmgrd.core.access.token import KEYS_MAX, TokenRefused, Tokens
from qmgrd.net.token_keys import FILE_MAX_BYTES, KeysUnusable, TokenKeys, read_keys
from tests.certificates import Certificates
from tests.tokens import NOW_MS, entry, jwk, jwks, pem, private_key, signed

OLD, NEW = private_key("p256", 1), private_key("p256", 2)
RSA, ED = private_key("rsa2048"), private_key("ed25519")


def private_pem(key: Any) -> bytes:
    found: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return found


def written(directory: Path, data: bytes) -> str:
    new = directory / "keys.new"
    new.write_bytes(data)
    os.replace(new, directory / "keys")
    return str(directory / "keys")


def test_pem_file_may_have_several_keys(tmp_path: Path) -> None:
    found = read_keys(written(tmp_path, b"# the keys\n" + pem(RSA, OLD) + b"\n" + pem(ED)))
    assert [(key.kid, key.algorithms[0]) for key in found] == [
        ("", "RS256"),
        ("", "ES256"),
        ("", "EdDSA"),
    ]


def test_jwks_has_names_and_algorithms(tmp_path: Path) -> None:
    rows = (
        jwk(RSA, kid="1", alg="PS512", use="sig"),
        jwk(OLD, kid="2"),
        jwk(ED, x5t="ignored"),
        jwk(RSA, kid="3", use="enc", alg="RSA-OAEP"),
    )
    found = read_keys(written(tmp_path, jwks(*rows)))
    assert [(key.kid, key.algorithms) for key in found] == [
        ("1", ("PS512",)),
        ("2", ("ES256",)),
        ("", ("EdDSA",)),
    ]


SECRET = {"kty": "oct", "k": "c2VjcmV0"}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 keys"),
        (b"hello", "0 keys"),
        (pem(*[OLD] * (KEYS_MAX + 1)), "33 keys instead of 1 to 32"),
        (pem(OLD)[:-40], "key 1 is not valid PEM"),
        (private_pem(OLD), "contains a PRIVATE KEY"),
        (pem(OLD) + private_pem(OLD), "contains a PRIVATE KEY"),
        (pem(private_key("rsa1024")), "1024 bits"),
        (pem(private_key("k1")), "not a public key of RSA"),
        (b"{", "Expecting"),
        (b"[" * 100_000, "0 keys"),
        (b'{"keys": ' + b"[" * 100_000, "recursion"),
        (b"{}", "not a JWKS"),
        (b'{"keys": {}}', "not a JWKS"),
        (b'{"keys": [1]}', "not a JWKS"),
        (jwks(), "0 keys"),
        (jwks({}), "key 1 is not valid"),
        (jwks({"kty": "XX"}), "key 1 is not valid"),
        (jwks(SECRET), "key 1 is secret"),
        (jwks(jwk(OLD), jwk(OLD, d="AAAA")), "key 2 is secret"),
        (jwks(jwk(OLD, kid=7)), "kid or alg"),
        (jwks(jwk(OLD, alg="HS256")), "'HS256', which does not fit"),
        (jwks(jwk(OLD, alg="RS256")), "'RS256', which does not fit"),
        (jwks(jwk(RSA, alg="none")), "'none', which does not fit"),
        (jwks(jwk(private_key("rsa1024"))), "1024 bits"),
        (b" " * (FILE_MAX_BYTES + 1), "longer than"),
    ],
)
def test_file_without_valid_public_keys_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    path = written(tmp_path, data)
    with pytest.raises(KeysUnusable, match=why) as caught:
        read_keys(path)
    assert path in str(caught.value)


def test_certificate_is_not_a_key(tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match="contains a CERTIFICATE; give only"):
        read_keys(Certificates(tmp_path).crt())


def test_missing_file_is_refused() -> None:
    with pytest.raises(KeysUnusable, match="cannot read /missing: No such file"):
        read_keys("/missing")


def test_changed_keys_are_used(tmp_path: Path) -> None:
    rules = [TokenRule.model_validate(entry(written(tmp_path, pem(OLD))))]
    keys, tokens = TokenKeys(rules), Tokens(rules)
    keys.give_to(tokens)
    assert tokens.verify(signed(key=OLD), NOW_MS).user == "app"
    assert not keys.refresh()
    written(tmp_path, pem(OLD, NEW))
    assert keys.refresh()
    keys.give_to(tokens)
    for key in (OLD, NEW):
        assert tokens.verify(signed(key=key), NOW_MS).user == "app"
    written(tmp_path, jwks(jwk(NEW, kid="new")))
    assert keys.refresh()
    keys.give_to(tokens)
    with pytest.raises(TokenRefused):
        tokens.verify(signed(key=OLD), NOW_MS)


@pytest.mark.parametrize(
    "broken", [b"", b"-----BEGIN PUBLIC KEY-----\nAAAA", json.dumps({}).encode()]
)
def test_last_valid_keys_stay(tmp_path: Path, broken: bytes) -> None:
    rules = [TokenRule.model_validate(entry(written(tmp_path, pem(OLD))))]
    keys, tokens = TokenKeys(rules), Tokens(rules)
    written(tmp_path, broken)
    with capture_logs() as lines:
        assert not keys.refresh()
        assert not keys.refresh()
    assert [line["log_level"] for line in lines] == ["warning"]
    keys.give_to(tokens)
    assert tokens.verify(signed(key=OLD), NOW_MS).user == "app"
    (tmp_path / "keys").unlink()
    assert not keys.refresh()
    written(tmp_path, pem(NEW))
    assert keys.refresh()


def test_without_issuers_there_are_no_files() -> None:
    assert not TokenKeys([]).has_files
    assert not TokenKeys([]).refresh()
