"""qmctl explain: what an error code means, and what to do about it."""

from typing import Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode
from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, exit_of

# What people who come from MQ look for, and is no error here.
NO_ERROR = {"2033 MQRC_NO_MSG_AVAILABLE": "a get whose wait is over brings no message: exit code 7"}

FACTS = (
    output.count("code"),
    output.text("name"),
    output.text("class"),
    output.text("means"),
    output.text("what_to_do"),
    output.text("mq"),
    output.count("exit_code"),
)
COLUMNS = (
    output.count("code"),
    output.text("name"),
    output.text("class"),
    output.text("mq"),
    output.long_text("means"),
)


def names(incomplete: str) -> list[str]:
    """Return the names of codes that start as *incomplete*, written as it is: for the shell."""
    found = [code.name for code in ErrorCode]
    if incomplete.islower():
        found = [name.lower() for name in found]
    if "-" in incomplete:
        found = [name.replace("_", "-") for name in found]
    return [name for name in found if name.startswith(incomplete)]


@command(local=True)
def explain(
    call: Call,
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            show_default=False,
            autocompletion=names,
            help="303, QUEUE_FULL or queue-full; IBM MQ: 2053 or MQRC_Q_FULL. All without it.",
        ),
    ] = None,
) -> None:
    """Tell what an error code means, and what to do about it; without one, list all.

    No queue manager is needed.

    \b
    JSON: an array of objects with
      code, name, class              class: later, never or unknown
      means, what_to_do              sentences
      mq                             reason code of IBM MQ, or ""
      exit_code                      of qmctl

    Examples:
      qmctl explain QUEUE_FULL
      qmctl explain 2053            # what IBM MQ calls so
      qmctl explain -o json
    """
    found = list(ErrorCode) if code is None else find(code)
    rows = [row_of(one) for one in found]
    if call.is_json:
        output.document(rows)
    elif code is None:
        output.table(COLUMNS, rows)
    else:
        for number, (one, row) in enumerate(zip(found, rows, strict=True)):
            if number:
                print()
            told = f"{one.error_class.word}: {one.error_class.means}"
            output.facts(FACTS, row | {"class": told})


def row_of(code: ErrorCode) -> dict[str, Any]:
    """Return all that is known of *code*, for scripts."""
    return {
        "code": code.value,
        "name": code.name,
        "class": code.error_class.word,
        "means": code.means,
        "what_to_do": code.remedy,
        "mq": code.mq,
        "exit_code": exit_of(code).value,
    }


def find(text: str) -> list[ErrorCode]:
    """Return the codes that go by *text*: several where MQ has one reason for them.

    Raises:
        Failure: USAGE, with what may have been meant.
    """
    wanted = _plain(text)
    found = [
        code
        for code in ErrorCode
        if wanted in (str(code.value), code.name) or wanted in _names_of(code.mq)
    ]
    if found:
        return found
    what = f"cannot explain {text}"
    for reason, why in NO_ERROR.items():
        if wanted in _names_of(reason):
            raise Failure(Exit.USAGE, what, f"{reason} is no error here", why)
    raise Failure(Exit.USAGE, what, "there is no such code", _better(wanted))


def _names_of(reason: str) -> list[str]:
    """Return what people may call a reason of MQ: its number, its name, both."""
    return [*reason.split(), _plain(reason)] if reason else []


def _better(wanted: str) -> str:
    from difflib import get_close_matches  # not for --help

    known = {code.name: code.name for code in ErrorCode}
    known |= {name: code.name for code in ErrorCode for name in _names_of(code.mq)}
    words = set(wanted.split("_"))
    close = [name for name in ErrorCode.__members__ if words <= set(name.split("_"))]
    close += [known[near] for near in get_close_matches(wanted, known, n=3)]
    meant = " or ".join(list(dict.fromkeys(close))[:3])
    return " ".join([f"did you mean {meant}?"] * bool(meant) + ["see: qmctl explain"])


def _plain(text: str) -> str:
    """Return *text* as a name is written, however people say it."""
    return "_".join(text.upper().replace("-", " ").replace("_", " ").split())
