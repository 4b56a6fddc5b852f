"""A failure of a command: one line on stderr, and one exit code.

error: what happened -- why -- what to do

With -o json the line is a JSON object (stderr.py). On a terminal each of the three parts begins on
a new line and wraps at the width of the terminal.
"""

from collections.abc import Iterable
from enum import IntEnum

from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError, name_of
from qmgr_tools.cli import connect_options
from qmgr_tools.cli import remedy as remedies

INDENT = "  "  # indent of the reason and the remedy on a terminal
WIDTH_MIN = 20
PART_MAX = 1_000  # characters; a longer part, which quotes its input, is shortened


class Exit(IntEnum):
    """The exit codes of qmctl. Their meanings never change, because scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    UNAVAILABLE = 5
    REFUSED = 6
    EMPTY = 7
    WARNING = 8
    CRITICAL = 9
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "success",
    Exit.FAILED: "failed: a bug, a damaged message or store, a file or output error",
    Exit.USAGE: "wrong usage: invalid command, option, name or value",
    Exit.NOT_FOUND: "not found: queue, subscription, topic, group, link, job, user",
    Exit.NOT_ALLOWED: "not authorized: no login, the login failed, or a right is lacking",
    Exit.UNAVAILABLE: "cannot connect, or the connection was lost (outcome may be unknown)",
    Exit.REFUSED: "refused: full, inhibited, too large, duplicate, exists, in use",
    Exit.EMPTY: "get: no message arrived within --wait",
    Exit.WARNING: "link doctor: the worst finding is a warning",
    Exit.CRITICAL: "link doctor: the worst finding is critical",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}

_USAGE = {
    ErrorCode.NAME_INVALID,
    ErrorCode.VALUE_INVALID,
    ErrorCode.FIELD_INVALID,
    ErrorCode.SELECTOR_INVALID,
    ErrorCode.GROUP_NUMBER_INVALID,
    ErrorCode.TOPIC_INVALID,
}
_NOT_FOUND = {
    ErrorCode.QUEUE_UNKNOWN,
    ErrorCode.QUEUE_DELETED,
    ErrorCode.LINK_UNKNOWN,
    ErrorCode.TEMPLATE_UNKNOWN,
    ErrorCode.JOB_UNKNOWN,
    ErrorCode.PRODUCER_UNKNOWN,
    ErrorCode.CONSUMER_UNKNOWN,
    ErrorCode.CONNECTION_UNKNOWN,
    ErrorCode.GROUP_UNKNOWN,
    ErrorCode.SUBSCRIPTION_UNKNOWN,
    ErrorCode.TOPIC_UNKNOWN,
    ErrorCode.PUBLICATION_UNKNOWN,
    ErrorCode.ASIDE_UNKNOWN,
    ErrorCode.USER_UNKNOWN,
    ErrorCode.ROLE_UNKNOWN,
    ErrorCode.GRANT_UNKNOWN,
}
_NOT_ALLOWED = {ErrorCode.NOT_AUTHORIZED, ErrorCode.LOGIN_REQUIRED, ErrorCode.LOGIN_FAILED}
_UNAVAILABLE = {
    ErrorCode.LOGINS_DELAYED,
    ErrorCode.LIVENESS_EXPIRED,
    ErrorCode.PEER_KEPT_OUT,
    ErrorCode.SHUTTING_DOWN,
    ErrorCode.NOT_ACTIVE,
    ErrorCode.JOURNAL_AWAY,
    ErrorCode.CONNECTIONS_EXHAUSTED,
    ErrorCode.USER_CONNECTIONS_EXHAUSTED,
}
_FAILED = {
    ErrorCode.INTERNAL_ERROR,
    ErrorCode.OPERATION_UNKNOWN,
    ErrorCode.RECORD_MALFORMED,
    ErrorCode.CHECKSUM_MISMATCH,
    ErrorCode.RECORD_DAMAGED,
    ErrorCode.STORE_DAMAGED,
    ErrorCode.SNAPSHOT_FAILED,
}
_MISUNDERSTOOD = range(ErrorCode.FRAME_TOO_LARGE, ErrorCode.LIVENESS_EXPIRED)


class Failure(Exception):
    """The failure of a command. The user sees only its text."""

    def __init__(
        self, exit_code: Exit, what: str, why: str, remedy: str = "", code: int = 0
    ) -> None:
        """Creates a failure. *code* is the protocol's error code, or 0."""
        parts = [
            _shortened(one_line(connect_options.add_to(part)))
            for part in (what, why, remedy)
            if part
        ]
        super().__init__(" -- ".join(parts))
        self.exit_code = exit_code
        self.parts = parts
        self.code = code

    def as_object(self) -> dict[str, object]:
        """Returns the object for -o json, whose keys never change."""
        what, why, remedy = [*self.parts, "", ""][:3]
        is_known = self.code in ErrorCode.__members__.values()
        return {
            "code": name_of(self.code) if is_known else None,
            "exit_code": int(self.exit_code),
            "what": what,
            "why": why,
            "remedy": remedy,
        }

    def paragraphs(self, width: int) -> str:
        """Returns the three parts, each on new lines wrapped at *width*.

        The command that explains the error code follows the reason and the remedy.
        """
        what, *rest = self.parts
        lines = _wrapped(f"error: {what}", width, "", INDENT)
        if self.code in ErrorCode.__members__.values():
            rest.append(f"see: qmctl explain {name_of(self.code)}")
        for part in rest:
            lines += _wrapped(part, width, INDENT, INDENT)
        return "\n".join(lines)


class NotListening(Failure):
    """The failure if no daemon, or only a standby, listens at the address.

    A starting daemon may listen soon, and a standby may soon become active.
    """

    def __init__(self, what: str, why: str, remedy: str, code: int = 0) -> None:
        super().__init__(Exit.UNAVAILABLE, what, why, remedy, code)


def _shortened(part: str) -> str:
    """Returns *part*, without its middle if it is longer than PART_MAX."""
    return part if len(part) <= PART_MAX else f"{part[: PART_MAX // 2]} ... {part[-100:]}"


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    from textwrap import wrap  # The import would slow down --help.

    return wrap(
        text,
        max(width, WIDTH_MIN),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def usage(what: str, why: str, remedy: str = "see the command's --help") -> Failure:
    """Returns the failure of a command with wrong usage."""
    return Failure(Exit.USAGE, what, why, remedy)


def refused(doing: str, error: RequestError, better: str = "") -> Failure:
    """Returns the failure of *doing* something that the daemon or the client refused.

    If *better* is given, it replaces the remedy.
    """
    why = f"{error.text.partition('; ')[0]} ({name_of(error.code)})"
    if error.error_class is ErrorClass.UNKNOWN_OUTCOME and error.code != ErrorCode.INTERNAL_ERROR:
        remedy = "check whether it took effect before you repeat it"
        return Failure(
            Exit.UNAVAILABLE, f"the outcome is unknown: {doing}", why, remedy, error.code
        )
    return Failure(
        exit_of(error.code), f"cannot {doing}", why, better or remedies.of(error), error.code
    )


def similar_queue(queue: str, queues: Iterable[str]) -> str:
    """Returns the remedy if *queue* is not among *queues*."""
    from difflib import get_close_matches  # The import would slow down --help.

    known = {name.casefold(): name for name in queues}
    close = [known[name] for name in get_close_matches(queue.casefold(), known, n=1)]
    return " ".join([*(f"did you mean {name}?" for name in close), "see: qmctl queue ls"])


def connection_refused(doing: str, address: str, error: RequestError) -> Failure:
    """Returns the failure of *doing* something after the listener refused the connection."""
    fact, _, hint = error.text.partition("; ")
    why = f"cannot connect to {address}: {fact} ({name_of(error.code)})"
    remedy = remedies.of(error)
    if not remedy or (error.code in _MISUNDERSTOOD and not hint):
        remedy = "check that a qmgrd of this version listens there, and read its log"
    exit_code = exit_of(error.code)
    exit_code = Exit.UNAVAILABLE if exit_code is Exit.FAILED else exit_code
    if error.code == ErrorCode.NOT_ACTIVE:
        return NotListening(f"cannot {doing}", why, remedy, error.code)
    return Failure(exit_code, f"cannot {doing}", why, remedy, error.code)


def exit_of(code: int) -> Exit:
    """Returns the exit code for any error code of the protocol, including unknown ones."""
    if code in _USAGE:
        return Exit.USAGE
    if code in _NOT_FOUND:
        return Exit.NOT_FOUND
    if code in _NOT_ALLOWED:
        return Exit.NOT_ALLOWED
    if code in _UNAVAILABLE:
        return Exit.UNAVAILABLE
    if code in _FAILED or code not in ErrorCode.__members__.values():
        return Exit.FAILED
    return Exit.REFUSED if code >= ErrorCode.QUEUE_UNKNOWN else Exit.FAILED


def one_line(text: str) -> str:
    """Returns *text* on one line, with control characters escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def exit_codes_text() -> str:
    """Returns the table of exit codes, for the help."""
    return "\n".join(f"{code.value:>4}  {meaning}" for code, meaning in MEANINGS.items())
