"""The error for unknown options, with a suggestion."""

from collections.abc import Iterable
from difflib import get_close_matches

from qmgr_protocol.errors import ErrorCode, RequestError


def unknown_option_error(options: Iterable[str], known: Iterable[str], verb: str) -> RequestError:
    """Returns the error for the first unknown option of *verb* in *options*."""
    names = sorted(known)
    wrong = next(name for name in options if name not in names)
    near = get_close_matches(wrong, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"the options are {', '.join(names)}"
    return RequestError(ErrorCode.VALUE_INVALID, f"{verb} has no option {wrong[:80]!r}; {hint}")
