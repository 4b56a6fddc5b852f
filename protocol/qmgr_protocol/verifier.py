"""The stored form of a password (SCRAM-SHA-256, RFC 5802 and RFC 7677).

    SCRAM-SHA-256$15000:salt$stored key:server key        binaries in base64, as in PostgreSQL

A verifier proves that a client knows the password. The password does not follow from it, so clients
make verifiers themselves and never send passwords. scram.py makes and uses verifiers.
"""

import re
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from hashlib import sha256
from hmac import digest
from typing import NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 15_000  # default
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 1_000_000
SALT_BYTES_MIN, SALT_BYTES_MAX = 12, 64
KEY_BYTES = 32
TEXT_MAX = 300
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_TEXT = re.compile(rf"SCRAM-SHA-256\$([0-9]{{1,7}}):({_BASE64})\$({_BASE64}):({_BASE64})")


class Verifier(NamedTuple):
    """The values that prove a password. Their order is that of a library for SCRAM."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __str__(self) -> str:
        salt, stored, server = (b64encode(x).decode() for x in self[:3])
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    def __repr__(self) -> str:
        """Returns a description without the keys: it may end up in logs."""
        return f"Verifier(iterations={self.iterations})"


def parse(text: str) -> Verifier:
    """Returns the verifier in *text*.

    Raises:
        RequestError: VALUE_INVALID if *text* is not a verifier. The error does not quote *text*.
    """
    found = _TEXT.fullmatch(text) if len(text) <= TEXT_MAX else None
    if found is None:
        raise _invalid("it is not SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY")
    iterations = int(found[1])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise _invalid(
            f"{iterations} iterations are out of range ({ITERATIONS_MIN} to {ITERATIONS_MAX})"
        )
    try:
        salt, stored, server = (a2b_base64(x, strict_mode=True) for x in found.groups()[1:])
    except Base64Error:
        raise _invalid("a part is not base64") from None
    if not SALT_BYTES_MIN <= len(salt) <= SALT_BYTES_MAX:
        raise _invalid(f"a salt has {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes, not {len(salt)}")
    if not len(stored) == len(server) == KEY_BYTES:
        raise _invalid(f"a key does not have {KEY_BYTES} bytes")
    return Verifier(salt, stored, server, iterations)


def _invalid(why: str) -> RequestError:
    return RequestError(ErrorCode.VALUE_INVALID, f"verifier: {why}")


def of_nobody(secret: bytes, user: str) -> Verifier:
    """Returns the verifier of a *user* that does not exist. No password fits it.

    The same user always gets the same salt, so a stranger cannot learn which users exist. However,
    a user whose verifier has other iterations, or a salt of another length, differs from an unknown
    one: qmctl always makes verifiers with these values.
    """
    seed = digest(secret, b"unknown user " + user.encode(), sha256)
    return Verifier(
        seed[:16],
        digest(seed, b"stored key", sha256),
        digest(seed, b"server key", sha256),
        ITERATIONS,
    )
