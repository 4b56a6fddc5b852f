"""What can go wrong with a command: one line on stderr, and one exit code.

error: what -- why -- what to try

With -o json the line is a JSON object (notice.py). On a terminal each of the three has lines of its
own, at most as wide as that is.
"""

import re
from collections.abc import Iterable
from enum import IntEnum

from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError, name_of
from qmgr_tools.cli import same_place

INDENT = "  "  # of why and what to try, on a terminal
WIDTH_MIN = 20
PART_MAX = 1_000  # characters: an error may name what it was given
SENTENCE_END = re.compile(r"\. (?=[A-Z])")  # A remedy may name the characters of a name, as 9 . _


class Exit(IntEnum):
    """The exit codes of qmctl. Scripts rely on them: a number never changes its meaning."""

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
    Exit.OK: "done",
    Exit.FAILED: "failed: a bug, a damaged message or store, a file or output that fails",
    Exit.USAGE: "wrong usage: a command, an option, a name or a value that cannot be",
    Exit.NOT_FOUND: "no such queue, subscription, topic, group, link, job, connection",
    Exit.NOT_ALLOWED: "the queue manager does not allow it",
    Exit.UNAVAILABLE: "cannot connect, or the connection was lost: outcome maybe unknown",
    Exit.REFUSED: "refused: full, inhibited, too large, duplicate, exists, in use",
    Exit.EMPTY: "get: no message came within the wait",
    Exit.WARNING: "link doctor: what is found is no more than a warning",
    Exit.CRITICAL: "link doctor: what is found is critical",
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
}
_UNAVAILABLE = {
    ErrorCode.LIVENESS_EXPIRED,
    ErrorCode.PEER_KEPT_OUT,
    ErrorCode.SHUTTING_DOWN,
    ErrorCode.CONNECTIONS_EXHAUSTED,
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
    """A command cannot be done. Its text is all that people get to see."""

    def __init__(
        self, exit_code: Exit, what: str, why: str, what_to_try: str = "", code: int = 0
    ) -> None:
        """Make one, for an error *code* of the protocol if there is one."""
        parts = [
            _shortened(one_line(same_place.commands(part)))
            for part in (what, why, what_to_try)
            if part
        ]
        super().__init__(" -- ".join(parts))
        self.exit_code = exit_code
        self.parts = parts
        self.code = code

    def as_object(self) -> dict[str, object]:
        """Return what -o json writes of it; the keys stay."""
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
        """Return what, why and what to try on lines of their own, none wider if words allow.

        Here is room to say where more is to be read.
        """
        what, *rest = self.parts
        lines = _wrapped(f"error: {what}", width, "", INDENT)
        if self.code in ErrorCode.__members__.values():
            rest.append(f"see: qmctl explain {name_of(self.code)}")
        for part in rest:
            lines += _wrapped(part, width, INDENT, INDENT)
        return "\n".join(lines)


class NotListening(Failure):
    """Nobody listens at the address. A daemon that is starting does in a moment."""

    def __init__(self, what: str, why: str, what_to_try: str) -> None:
        super().__init__(Exit.UNAVAILABLE, what, why, what_to_try)


def _shortened(part: str) -> str:
    """Return *part* without its middle where that is too long to read."""
    return part if len(part) <= PART_MAX else f"{part[: PART_MAX // 2]} ... {part[-100:]}"


def _wrapped(text: str, width: int, first: str, others: str) -> list[str]:
    from textwrap import wrap  # not for --help

    return wrap(
        text,
        max(width, WIDTH_MIN),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def usage(what: str, why: str, what_to_try: str = "see the command's --help") -> Failure:
    """Return the failure of a command that was called in a wrong way."""
    return Failure(Exit.USAGE, what, why, what_to_try)


def refused(doing: str, error: RequestError, better: str = "") -> Failure:
    """Return the failure of *doing* something that the daemon, or the client, refused.

    Where *better* is given, it stands for the remedy that the daemon names.
    """
    fact, _, remedy = error.text.partition("; ")
    remedy = better or remedy
    why = f"{fact} ({name_of(error.code)})"
    if error.error_class is ErrorClass.UNKNOWN_OUTCOME and error.code != ErrorCode.INTERNAL_ERROR:
        remedy = "it may have been done all the same: look, before you do it again"
        return Failure(
            Exit.UNAVAILABLE, f"do not know whether this was done: {doing}", why, remedy, error.code
        )
    if error.code != ErrorCode.NAME_INVALID:  # Its text says what a name is, as try_of does.
        remedy = remedy or try_of(error.code)
    return Failure(exit_of(error.code), f"cannot {doing}", why, remedy, error.code)


def look_for(queue: str, queues: Iterable[str]) -> str:
    """Return what to try where *queue* is not to be found among *queues*."""
    from difflib import get_close_matches  # not for --help

    known = {name.casefold(): name for name in queues}
    close = [known[name] for name in get_close_matches(queue.casefold(), known, n=1)]
    return " ".join([*(f"did you mean {name}?" for name in close), "see: qmctl queue ls"])


def sent_away(doing: str, address: str, error: RequestError) -> Failure:
    """Return the failure of *doing* something where the one who listens wants no such client."""
    fact, _, remedy = error.text.partition("; ")
    why = f"cannot connect to {address}: {fact} ({name_of(error.code)})"
    if not remedy and (error.code in _MISUNDERSTOOD or not try_of(error.code)):
        remedy = "is it a qmgrd of this version? look into its log"
    remedy = remedy or try_of(error.code)
    exit_code = exit_of(error.code)
    exit_code = Exit.UNAVAILABLE if exit_code is Exit.FAILED else exit_code
    return Failure(exit_code, f"cannot {doing}", why, remedy, error.code)


def exit_of(code: int) -> Exit:
    """Return the exit code for an error code of the protocol, known or not."""
    if code in _USAGE:
        return Exit.USAGE
    if code in _NOT_FOUND:
        return Exit.NOT_FOUND
    if code == ErrorCode.NOT_AUTHORIZED:
        return Exit.NOT_ALLOWED
    if code in _UNAVAILABLE:
        return Exit.UNAVAILABLE
    if code in _FAILED or code not in ErrorCode.__members__.values():
        return Exit.FAILED
    return Exit.REFUSED if code >= ErrorCode.QUEUE_UNKNOWN else Exit.FAILED


def try_of(code: int) -> str:
    """Return what may help after an error code, or nothing: what the catalogue says first."""
    first = SENTENCE_END.split(ErrorCode(code).remedy, maxsplit=1)[0].removesuffix(".")
    return first[:1].lower() + first[1:]


def one_line(text: str) -> str:
    """Return *text* on one line, without characters that a terminal would act on."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def exit_codes_text() -> str:
    """Return the table of exit codes, for the help."""
    return "\n".join(f"{code.value:>4}  {meaning}" for code, meaning in MEANINGS.items())
