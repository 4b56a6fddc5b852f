"""The id of a message group as people write it: as text if it is text, else in hexadecimal.

    4E 31 32 33 34 35, 18 times 00      N12345
    4E 31 32 33 34 35, 18 times 20      N12345 and 18 spaces, which belong to it
    anything else                       48 digits

An id is 24 bytes. Each id is shown in one form, and no two ids share a form. That form can be
entered again, and so can the 48 digits of every id. A text has at most 24 bytes, so it never looks
like digits.
"""

import re

from qmgr_protocol.record import GROUP_ID_BYTES

DIGITS = 2 * GROUP_ID_BYTES
_HEX = re.compile(f"[0-9A-Fa-f]{{{DIGITS}}}")


def shown(group_id: bytes) -> str:
    """Returns *group_id* as text if it is printable ASCII padded with zero bytes, else in hex."""
    text = group_id.rstrip(b"\0").decode("latin-1")
    return text if text.strip() and text.isascii() and text.isprintable() else group_id.hex()


def parsed(given: str) -> bytes:
    """Returns the id in *given*: 48 hexadecimal digits, or a text of at most 24 bytes.

    Raises:
        ValueError: *given* is neither, or consists of zero bytes only.
    """
    if _HEX.fullmatch(given):
        found = bytes.fromhex(given)
        if not any(found):
            raise ValueError("24 zero bytes are the id of no group")
        return found
    data = given.encode(errors="surrogateescape")
    if len(data) > GROUP_ID_BYTES:
        raise ValueError(
            f"a text of {len(data)} bytes, at most {GROUP_ID_BYTES}; "
            f"in hexadecimal it has {DIGITS} digits"
        )
    if not data.strip(b"\0"):
        raise ValueError("an empty text is the id of no group")
    return data.ljust(GROUP_ID_BYTES, b"\0")
