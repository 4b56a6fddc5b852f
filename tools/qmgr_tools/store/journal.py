"""qmctl journal: moves the journal of a stopped queue manager."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from qmgr_tools.cli import completion, output, progress
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure


class Goal(StrEnum):
    """The destination of a journal."""

    SERVER = "server"
    FILE = "file"


@command(local=True)
def move(
    call: Call,
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            show_default=False,
            autocompletion=completion.files,
            help="The data directory of a stopped daemon.",
        ),
    ],
    to: Annotated[
        Goal, typer.Option(metavar="server|file", show_default=False, help="Where it goes.")
    ],
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="QMGRD_JOURNAL__URL",
            show_default=False,
            help="The PostgreSQL server, as in journal.url.",
        ),
    ],
) -> None:
    """Move the journal of a stopped queue manager to a server, or back to a local file.

    Its messages, links and producers stay as they are. The move to a server copies the store to the
    server, so the disk needs room for a second copy. Afterwards, start the daemon with journal.url.
    The move to a file needs all members to be stopped. Afterwards, start the daemon without
    journal.url; the data directories of other members are of no use any more. A command that was
    interrupted can be repeated.

    \b
    JSON: an object with
      queue_manager   the name
      record          the last record of the journal
      size_bytes      the size of the copy on the server, or of the store

    Examples:
      qmctl journal move /var/lib/qmgrd --to server --url postgresql://db/qmgrd
      qmctl journal move /var/lib/qmgrd --to file --url postgresql://db/qmgrd
    """
    with _failures(directory), progress.spinner("moving the journal"):
        from qmgrd.engine import move as moves

        call_move = moves.move_to_server if to is Goal.SERVER else moves.move_to_file
        moved = call_move(directory, url)
    if call.is_json:
        output.document(moved._asdict())
        return
    where = "the server" if to is Goal.SERVER else f"a local file in {directory}"
    output.say(
        f"moved the journal of {moved.queue_manager} to {where}: it continues after record "
        f"{moved.record}"
    )


@contextmanager
def _failures(directory: Path) -> Iterator[None]:
    """Turns errors of a move into a Failure."""
    what = f"cannot move the journal of {directory}"
    try:
        from qmgrd.engine.move import MoveRefused
        from qmgrd.engine.reader import LogShort, LogTrimmed
        from qmgrd.engine.server import ServerAway, ServerUnusable
    except ImportError as error:
        remedy = "pip install 'qmgrd-all[postgresql]'"
        raise Failure(Exit.FAILED, what, f"psycopg is missing: {error}", remedy) from error
    from qmgrd.core.layout.kv import StoreFailed
    from qmgrd.core.layout.row import RowDamaged
    from qmgrd.store.inspect import StoreUnreadable
    from qmgrd.store.journal import JournalUnreadable
    from qmgrd.store.lmdb_store import StoreLocked
    from qmgrd.store.offline import StoreInUse

    try:
        yield
    except (StoreInUse, StoreLocked) as error:
        raise Failure(Exit.REFUSED, what, str(error), "stop the daemon") from error
    except MoveRefused as error:
        raise Failure(Exit.REFUSED, what, str(error)) from error
    except ServerAway as error:
        raise Failure(Exit.UNAVAILABLE, what, str(error)) from error
    except (
        ServerUnusable,
        LogShort,
        LogTrimmed,
        StoreFailed,
        StoreUnreadable,
        JournalUnreadable,
        RowDamaged,
    ) as error:
        raise Failure(Exit.FAILED, what, str(error)) from error
