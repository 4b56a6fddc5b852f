"""Formats numbers with their nouns."""


def amount(count: int, noun: str) -> str:
    """Returns *count* with *noun* in the singular or plural: "1 message", "2 messages"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
