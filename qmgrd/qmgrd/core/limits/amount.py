"""Numbers of things, as people say them."""


def amount(count: int, noun: str) -> str:
    """Return *count* of *noun*: "1 message", "2 messages"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
