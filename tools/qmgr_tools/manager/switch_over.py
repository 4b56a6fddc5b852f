"""qmctl switch-over: makes another member of a queue manager active."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure

WAIT_S = 20.0  # longer than the times after which other members, or the same one, become active
PAUSE_S = 0.02
DOING = "switch over"

To = Annotated[
    str,
    typer.Option(
        metavar="MEMBER",
        show_default=False,
        help="The member to become active. Without it: the standby with the most records.",
    ),
]


@command()
def switch_over(call: Call, to: To = "") -> None:
    """Make another member active, for example before you stop a machine.

    The active member finishes the requests that it received, and becomes a standby. This command
    returns when another member is active. Nothing acknowledged is lost. Clients and links with all
    addresses connect to the new active member by themselves. "qmctl status" shows the members.

    \b
    JSON: an object with
      member, former   the active member, and the one before
      addresses        of the active member
      why              it became active
      epoch            the number of changes of the active member so far
      took_ms          time from the request to an answer of the new member

    Examples:
      qmctl switch-over
      qmctl switch-over --to nyc2
    """
    call = call.pinned(DOING)
    with call.client(DOING) as client:
        before: dict[str, Any] = dict(client.admin.status())
        begun_s = time.monotonic()
        journal = before["journal"]
        wanted = client.admin.switch_over(to, journal.get("epoch", 0))
    after = _wait(call, before, wanted)
    took_ms = round((time.monotonic() - begun_s) * 1000)
    if after["member"] == journal["member"]:
        raise Failure(
            Exit.FAILED,
            f"cannot {DOING} to {wanted['member']}",
            f"it did not become active, so {after['member']} is active again",
            f"read the log of {wanted['member']}",
        )
    rows = {row["member"]: row for row in after["members"]}
    row = {
        "member": after["member"],
        "former": journal["member"],
        "addresses": rows.get(after["member"], {}).get("addresses") or wanted["addresses"],
        "why": after["why"],
        "epoch": after["epoch"],
        "took_ms": took_ms,
    }
    if call.is_json:
        output.document(row)
        return
    where = output.listed(row["addresses"])
    output.say(f"{row['member']} is active at {where}, after {took_ms / 1000:.2f} s")


def _wait(call: Call, before: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Returns the journal's status after the switch-over.

    Raises:
        Failure: No member answered in time.
    """
    calls = [replace(call, connect=address) for address in _addresses(call, wanted["addresses"])]
    until_s, why = time.monotonic() + WAIT_S, ""
    while time.monotonic() < until_s:
        for one in calls:
            try:
                with one.client(DOING, patience_ms=0, give_up_ms=0) as client:
                    journal: dict[str, Any] = dict(client.admin.status()["journal"])
            except Failure as failure:
                why = failure.parts[1]
                continue
            if journal["epoch"] > before["journal"]["epoch"]:
                return journal
        time.sleep(PAUSE_S)
    raise Failure(
        Exit.UNAVAILABLE,
        f"cannot see whether {wanted['member']} is active",
        why,
        "show the status at its address: qmctl status --connect",
    )


def _addresses(call: Call, others: list[str]) -> Iterator[str]:
    """Yields the addresses to ask: those of the new member, and those that the user gave.

    A login is sent over TLS only if it was before.
    """
    from qmgr_client.address import parse_list, split  # It is not needed for --help.
    from qmgr_client.errors import AddressInvalid

    given = call.address()
    try:
        is_tls = parse_list(given)[0].is_tls
        kinds = {address: parse_list(address)[0] for address in others}
    except AddressInvalid:
        kinds, is_tls = {}, False
    yield from (a for a, found in kinds.items() if found.is_tls == is_tls and not found.path)
    yield from split(given)
