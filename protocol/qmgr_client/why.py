"""What is told of an exception: why a message failed, for its note."""

from qmgr_protocol.messages import REASON_MAX, REASON_TEXT_MAX


def why(error: BaseException) -> tuple[str, str]:
    """Return a reason, the type's name, and a text, each cut to what a note takes."""
    text = str(error).encode(errors="replace").decode()  # It may hold half a character.
    return type(error).__name__[:REASON_MAX], text[:REASON_TEXT_MAX]
