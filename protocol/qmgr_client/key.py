"""Keys: a text or UUID of the caller that makes a put take effect once.

    key                                      UID of the message
    "invoice-4711"                           key.invoice-4711.0       readable
    UUID("c0ffee00-...")                     key.c0ffee00-....0       its text form
    "Ann Müller, 2026-11", a long text       sha256.<43 characters>.0 256 bits in base64url

Different keys have different UIDs. A queue recognizes duplicates by their UIDs.
"""

import base64
import hashlib
import uuid
from typing import TypeAlias

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.name import is_name
from qmgr_protocol.record import Uid

Key: TypeAlias = str | uuid.UUID

PLAIN = "key."  # prefix of a key that is valid in a name
HASHED = "sha256."  # prefix of the hash of any other key


def uid_of(key: Key) -> Uid:
    """Returns the UID of a message with *key*. The same key always has the same UID.

    Raises:
        RequestError: VALUE_INVALID, *key* is not a text or UUID, is empty, or is not valid UTF-8.
    """
    if not isinstance(key, str | uuid.UUID) or not str(key):
        text = f"the key {key!r} is not a text of at least one character, or a UUID"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if is_name(plain := f"{PLAIN}{key}"):
        return Uid(plain, 0)
    try:
        digest = hashlib.sha256(str(key).encode()).digest()
    except UnicodeEncodeError:
        text = f"the key {key!r} is not valid UTF-8"
        raise RequestError(ErrorCode.VALUE_INVALID, text) from None
    return Uid(HASHED + base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), 0)
