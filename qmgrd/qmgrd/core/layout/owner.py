"""The text by which rows refer to the user to whom they belong: its name and its number.

A user that is deleted and created again has another number, and is therefore another owner.
"""

# Separates the name of an owner from its number. Names do not contain it.
_NUMBERED = "#"


def owner_of(name: str, number: int) -> str:
    """Returns the text that refers to the user *name*. Users of old versions have the number 0."""
    return f"{name}{_NUMBERED}{number}" if number else name


def name_of(owner: str) -> str:
    """Returns the name of the user to whom *owner* refers."""
    return owner.partition(_NUMBERED)[0]
