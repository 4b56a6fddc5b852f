"""Keys: a text or a UUID of the caller's own that makes a put happen once.

    key                                      UID of the message
    "invoice-4711"                           key.invoice-4711.0       readable, nothing is lost
    UUID("c0ffee00-...")                     key.c0ffee00-....0       as its text
    "Ann Müller, 2026-11", a long text       sha256.<43 characters>.0 256 bits in base64url

So two keys never have one UID, and the queue knows a duplicate by the UID, as of any message.
"""

import base64
import hashlib
import uuid
from typing import TypeAlias

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.name import is_name
from qmgr_protocol.record import Uid

Key: TypeAlias = str | uuid.UUID

PLAIN = "key."  # before a key that may be part of a name as it is
HASHED = "sha256."  # before the hash of any other


def uid_of(key: Key) -> Uid:
    """Return the UID of a message that is put under *key*: the same for the same text or UUID.

    Raises:
        RequestError: VALUE_INVALID, it is neither a text nor a UUID, it is empty, or it is a text
            that UTF-8 cannot hold.
    """
    if not isinstance(key, str | uuid.UUID) or not str(key):
        text = f"the key {key!r} is not a text of at least one character, or a UUID"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if is_name(plain := f"{PLAIN}{key}"):
        return Uid(plain, 0)
    try:
        digest = hashlib.sha256(str(key).encode()).digest()
    except UnicodeEncodeError:
        text = f"the key {key!r} is not a text of UTF-8"
        raise RequestError(ErrorCode.VALUE_INVALID, text) from None
    return Uid(HASHED + base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), 0)
