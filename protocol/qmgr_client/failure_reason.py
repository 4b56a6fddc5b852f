"""The reason and text that describe an exception in the note of a failed message."""

from qmgr_protocol.messages import REASON_MAX, REASON_TEXT_MAX


def failure_reason(error: BaseException) -> tuple[str, str]:
    """Returns the error's type and text. Both are cut to the limits of a note."""
    text = str(error).encode(errors="replace").decode()  # The text may contain lone surrogates.
    return type(error).__name__[:REASON_MAX], text[:REASON_TEXT_MAX]
