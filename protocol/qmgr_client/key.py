"""Keys: strings or UUIDs that callers choose so that a repeated put takes effect only once.

    key                                      UID of the message        remark
    "invoice-4711"                           key.invoice-4711.0       readable
    UUID("c0ffee00-...")                     key.c0ffee00-....0       text form of the UUID
    "Ann Müller, 2026-11", long keys         sha256.<43 characters>.0  256 bits in base64url

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

PLAIN = "key."  # prefix of the UID if the key is valid in a name
HASHED = "sha256."  # prefix of the UID of any other key, followed by its hash


def uid_of(key: Key) -> Uid:
    """Returns the UID of a message with *key*. The same key always has the same UID.

    Raises:
        RequestError: VALUE_INVALID if *key* is empty, neither a str nor a UUID, or not valid UTF-8.
    """
    if not isinstance(key, str | uuid.UUID) or not str(key):
        text = f"the key {key!r} is neither a UUID nor a string of at least one character"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if is_name(plain := f"{PLAIN}{key}"):
        return Uid(plain, 0)
    try:
        digest = hashlib.sha256(str(key).encode()).digest()
    except UnicodeEncodeError:
        text = f"the key {key!r} is not valid UTF-8"
        raise RequestError(ErrorCode.VALUE_INVALID, text) from None
    return Uid(HASHED + base64.urlsafe_b64encode(digest).rstrip(b"=").decode(), 0)
