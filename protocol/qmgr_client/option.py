"""Options that a caller misspelt: what is unknown, and what is meant."""

from collections.abc import Iterable
from difflib import get_close_matches

from qmgr_protocol.errors import ErrorCode, RequestError


def unknown(given: Iterable[str], known: Iterable[str], verb: str) -> RequestError:
    """Returns the refusal of the first name in *given* that is not *known* to *verb*."""
    names = sorted(known)
    wrong = next(name for name in given if name not in names)
    near = get_close_matches(wrong, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
    return RequestError(ErrorCode.VALUE_INVALID, f"{verb} has no option {wrong[:80]!r}; {hint}")
