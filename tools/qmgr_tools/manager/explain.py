"""qmctl explain: explains the meaning of an error code, and its remedy."""

from typing import Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode
from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, exit_of

# The reason codes of IBM MQ that are not errors in qmgrd.
NO_ERROR = {"2033 MQRC_NO_MSG_AVAILABLE": "if no message arrives, a get ends with exit code 7"}

FACTS = (
    output.count("code"),
    output.text("name"),
    output.text("class"),
    output.text("means", "meaning"),
    output.text("what_to_do"),
    output.text("mq"),
    output.count("exit_code"),
)
COLUMNS = (
    output.count("code"),
    output.text("name"),
    output.text("class"),
    output.text("mq"),
    output.long_text("means", "MEANING"),
)


def names(incomplete: str) -> list[str]:
    """Returns the names of codes that start with *incomplete*, in the same spelling."""
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
            help="303, QUEUE_FULL or queue-full; for IBM MQ: 2053 or MQRC_Q_FULL. Default: all.",
        ),
    ] = None,
) -> None:
    """Explain an error code and its remedy, or list all codes.

    This command does not connect to a queue manager.

    \b
    JSON: an array of objects with
      code, name, class              class is later, never or unknown
      means, what_to_do              the meaning and the remedy, in sentences
      mq                             reason code of IBM MQ, or ""
      exit_code                      exit code of qmctl

    Examples:
      qmctl explain QUEUE_FULL
      qmctl explain 2053            # a reason code of IBM MQ
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
            class_ = f"{one.error_class.word}: {one.error_class.means}"
            output.facts(FACTS, row | {"class": class_})


def row_of(code: ErrorCode) -> dict[str, Any]:
    """Returns the row of *code*, for scripts."""
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
    """Returns the codes that *text* names. Several codes can share a reason code of MQ.

    Raises:
        Failure: USAGE if no code has this name. The remedy suggests similar names.
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
            raise Failure(Exit.USAGE, what, f"{reason} is not an error of qmgrd", why)
    raise Failure(Exit.USAGE, what, "the code does not exist", _suggestions(wanted))


def _names_of(reason: str) -> list[str]:
    """Returns the number, the name, and both together, for a reason code of MQ."""
    return [*reason.split(), _plain(reason)] if reason else []


def _suggestions(wanted: str) -> str:
    from difflib import get_close_matches  # The import would slow down --help.

    known = {code.name: code.name for code in ErrorCode}
    known |= {name: code.name for code in ErrorCode for name in _names_of(code.mq)}
    words = set(wanted.split("_"))
    close = [name for name in ErrorCode.__members__ if words <= set(name.split("_"))]
    close += [known[near] for near in get_close_matches(wanted, known, n=3)]
    similar = " or ".join(list(dict.fromkeys(close))[:3])
    return " ".join([f"did you mean {similar}?"] * bool(similar) + ["see: qmctl explain"])


def _plain(text: str) -> str:
    """Returns *text* in upper case with underscores, like the names of codes."""
    return "_".join(text.upper().replace("-", " ").replace("_", " ").split())
