"""Reads and prints the table of origins of a queue, which the daemon returns in pages."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import output

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

COLUMNS = (output.text("origin"), output.count("timestamp", "HIGHEST TIMESTAMP"))
All = Annotated[bool, typer.Option("--all-origins", help="Show the complete table of origins.")]


def complete(client: "Client", row: dict[str, Any]) -> dict[str, Any]:
    """Returns the *row* of a queue with all origins."""
    origins, after = dict(row.get("origins") or {}), row.get("origins_next")
    while after is not None:
        page = client.admin.queue_show(row["queue"], origins_after=after)
        origins |= page["origins"]
        after = page["origins_next"]
    return row | {"origins": origins, "origins_next": None} if "origins" in row else row


def show(row: Mapping[str, Any]) -> None:
    """Prints the origins of a *row*, and a note if there are more origins."""
    origins = row.get("origins") or {}
    if origins:
        print()
        output.table(COLUMNS, [{"origin": o, "timestamp": t} for o, t in origins.items()])
    if row.get("origins_next") is not None:
        output.flush()  # The note must appear below the table.
        output.note(
            f"only the first {len(origins):,} origins are shown; to show all: "
            f"qmctl queue show {row['queue']} --all-origins"
        )
