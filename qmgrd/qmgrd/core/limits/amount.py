"""Counts with their nouns."""


def amount(count: int, noun: str) -> str:
    """Returns *count* of *noun*: "1 message", "2 messages"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
