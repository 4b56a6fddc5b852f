"""The public keys of the issuers of tokens: reads their files again when they change.

A file that is not valid, as in the middle of a change, is refused: the daemon keeps the last valid
keys of all issuers, and tries again when a file changes.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import structlog

from qmgr_config.token_rule import TokenRule
from qmgrd.core.access.token import KEYS_MAX, TokenKey, Tokens, key_of
from qmgrd.net.tls_files import stat_of

REFRESH_S = 5.0  # time between two checks of the files
FILE_MAX_BYTES = 1 << 20
KIND_MAX = 40  # characters of the kind of a block in an error
_PEM_BEGIN, _PEM_END = b"-----BEGIN ", b"-----END "
_PUBLIC = b"PUBLIC KEY-----"

log = structlog.get_logger()


class KeysUnusable(Exception):
    """A file does not contain valid public keys. The text names the file and the reason."""


class TokenKeys:
    """The keys of all issuers.

    Invariant: all keys were read from the same state of the files.
    """

    def __init__(self, configured: Sequence[TokenRule]) -> None:
        """Reads the files.

        Raises:
            KeysUnusable: A file cannot be read, or does not contain valid public keys.
        """
        if configured:
            import jwt  # noqa: F401  # Takes 0.2 s, in which the first login would hold the loop.
        self._paths = [entry.keys_file for entry in configured]
        self._state = self._stat()
        self._keys = self._read()

    @property
    def has_files(self) -> bool:
        """Whether any issuer is configured."""
        return bool(self._paths)

    def give_to(self, tokens: Tokens) -> None:
        """Makes *tokens* use the present keys."""
        tokens.keys = self._keys

    async def keep_fresh(self, tokens: Tokens) -> None:
        """Makes *tokens* use changed keys, until it is cancelled."""
        while self.has_files:
            await asyncio.sleep(REFRESH_S)
            if self.refresh():
                self.give_to(tokens)

    def refresh(self) -> bool:
        """Reads the files again if they have changed. Returns whether new keys are in use."""
        state = self._stat()
        if state == self._state:
            return False
        self._state = state
        try:
            self._keys = self._read()
        except KeysUnusable as error:
            log.warning("cannot use the changed keys of tokens; the last ones stay", why=str(error))
            return False
        log.info("read changed keys of tokens", paths=self._paths)
        return True

    def _stat(self) -> list[tuple[int, ...]]:
        return [stat_of(path) for path in self._paths]

    def _read(self) -> list[tuple[TokenKey, ...]]:
        return [read_keys(path) for path in self._paths]


def read_keys(path: str) -> tuple[TokenKey, ...]:
    """Returns the public keys in the file *path*: PEM, or a JWKS (RFC 7517).

    Raises:
        KeysUnusable: The file cannot be read, has no key or too many, or one that is not valid.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_MAX_BYTES + 1)
    except OSError as error:
        raise KeysUnusable(f"cannot read {path}: {error.strerror}") from None
    try:
        if len(data) > FILE_MAX_BYTES:
            raise ValueError(f"it is longer than {FILE_MAX_BYTES} bytes")
        keys = _of_jwks(data) if data.lstrip().startswith(b"{") else _of_pem(data)
        if not 0 < len(keys) <= KEYS_MAX:
            raise ValueError(f"it has {len(keys)} keys instead of 1 to {KEYS_MAX}")
    except (ValueError, RecursionError) as error:
        raise KeysUnusable(f"{path}: {error}") from None
    return keys


def _of_pem(data: bytes) -> tuple[TokenKey, ...]:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    keys = []
    for block in data.split(_PEM_BEGIN)[1:]:
        if not block.startswith(_PUBLIC):
            kind = block.partition(b"-----")[0].decode(errors="replace")[:KIND_MAX]
            raise ValueError(f"it contains a {kind}; give only blocks of PUBLIC KEY")
        try:
            keys.append(load_pem_public_key(_PEM_BEGIN + block))
        except Exception:  # The library has several errors for a damaged key.
            raise ValueError(f"key {len(keys) + 1} is not valid PEM") from None
    return tuple(key_of(key) for key in keys)


def _of_jwks(data: bytes) -> tuple[TokenKey, ...]:
    from jwt import PyJWK

    found: Any = json.loads(data)
    rows = found.get("keys")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a JWKS: an object with a list named keys")
    keys = []
    for number, row in enumerate(rows, 1):
        if row.get("use", "sig") != "sig":
            continue  # a key for encryption
        kid, algorithm = row.get("kid", ""), row.get("alg", "")
        if row.get("kty") == "oct" or "d" in row:
            raise ValueError(f"key {number} is secret; give only public keys")
        if not isinstance(kid, str) or not isinstance(algorithm, str):
            raise ValueError(f"kid or alg of key {number} is not a text")
        try:
            key = PyJWK({name: value for name, value in row.items() if name != "alg"}).key
        except Exception as error:  # The library has several errors for a damaged key.
            raise ValueError(f"key {number} is not valid: {error}") from None
        keys.append(key_of(key, kid, algorithm))
    return tuple(keys)
