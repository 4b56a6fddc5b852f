"""The readable form of a message group's id: text if possible, otherwise hexadecimal digits.

    4E 31 32 33 34 35, 18 times 00      N12345
    4E 31 32 33 34 35, 18 times 20      N12345 and 18 spaces, which are part of the id
    any other id                        48 digits

An id is 24 bytes. Each id has one readable form, and no two ids share a form. Users can enter this
form, or the 48 digits of any id. The text form has at most 24 bytes, so it never looks like 48
digits.
"""

import re

from qmgr_protocol.record import GROUP_ID_BYTES

DIGITS = 2 * GROUP_ID_BYTES
_HEX = re.compile(f"[0-9A-Fa-f]{{{DIGITS}}}")


def shown(group_id: bytes) -> str:
    """Returns *group_id* as text if it is printable ASCII padded with zeros, otherwise in hex."""
    text = group_id.rstrip(b"\0").decode("latin-1")
    return text if text.strip() and text.isascii() and text.isprintable() else group_id.hex()


def parsed(given: str) -> bytes:
    """Returns the id that *given* denotes: 48 hexadecimal digits, or text of at most 24 bytes.

    Raises:
        ValueError: *given* has neither form, or consists of zero bytes only.
    """
    if _HEX.fullmatch(given):
        found = bytes.fromhex(given)
        if not any(found):
            raise ValueError("24 zero bytes are not a valid group id")
        return found
    data = given.encode(errors="surrogateescape")
    if len(data) > GROUP_ID_BYTES:
        raise ValueError(
            f"a text of {len(data)} bytes exceeds the limit of {GROUP_ID_BYTES} bytes; "
            f"in hexadecimal, an id has {DIGITS} digits"
        )
    if not data.strip(b"\0"):
        raise ValueError("an empty text is not a valid group id")
    return data.ljust(GROUP_ID_BYTES, b"\0")
