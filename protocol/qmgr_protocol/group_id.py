"""The id of a message group as people write it: as text where it is text, else in hexadecimal.

    4E 31 32 33 34 35, 18 times 00      N12345
    4E 31 32 33 34 35, 18 times 20      N12345 and 18 spaces, which belong to it
    anything else                       48 digits

An id is 24 bytes. Each has one form that is shown, and no two have the same; that form is taken
back as it is, and so are the 48 digits of every id. No text can be taken for digits, as it has at
most 24 bytes.
"""

import re

from qmgr_protocol.record import GROUP_ID_BYTES

DIGITS = 2 * GROUP_ID_BYTES
_HEX = re.compile(f"[0-9A-Fa-f]{{{DIGITS}}}")


def shown(group_id: bytes) -> str:
    """Return *group_id* as text if it is printable ASCII with zero bytes behind it, else in hex."""
    text = group_id.rstrip(b"\0").decode("latin-1")
    return text if text.strip() and text.isascii() and text.isprintable() else group_id.hex()


def parsed(said: str) -> bytes:
    """Return the id that *said* is: 48 hexadecimal digits, or a text of at most 24 bytes.

    Raises:
        ValueError: it is neither, or of zero bytes alone, which is no group.
    """
    if _HEX.fullmatch(said):
        found = bytes.fromhex(said)
        if not any(found):
            raise ValueError("24 zero bytes are the id of no group")
        return found
    data = said.encode(errors="surrogateescape")
    if len(data) > GROUP_ID_BYTES:
        raise ValueError(
            f"a text of {len(data)} bytes, at most {GROUP_ID_BYTES}; "
            f"in hexadecimal it has {DIGITS} digits"
        )
    if not data.strip(b"\0"):
        raise ValueError("an empty text is the id of no group")
    return data.ljust(GROUP_ID_BYTES, b"\0")
