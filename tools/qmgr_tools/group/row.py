"""A message group as the row of a table, or as an object for scripts."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from qmgr_protocol import group_id
from qmgr_protocol.errors import name_of
from qmgr_tools.cli import output
from qmgr_tools.cli.humanize import US_PER_S, age, counted, messages, rfc3339

COLUMNS = (
    output.text("group"),
    output.text("state"),
    output.count("count"),
    output.count("delayed"),
    output.count("leased"),
    output.count("next"),
    output.count("last"),
    output.count("missing"),
    output.duration("age_ms", "AGE"),
    output.name("holder", is_long=True),
    output.count("highest"),
    output.Column("next_is_here", "NEXT IS HERE", output.flag),
    output.text("first"),
    output.count("parked_number", "PARKED AT"),
    output.text("parked_code", "PARKED FOR"),
    output.Column("closed", "CLOSED", output.flag),
    output.whole("group_id", "GROUP ID"),
)
LISTED = (
    "group",
    "state",
    "count",
    "delayed",
    "leased",
    "next",
    "last",
    "missing",
    "age_ms",
    "holder",
)
STATES = {
    "complete": "all of it is here, from what comes next to its last message",
    "open": "nothing is missing, but its last message has not come",
    "gap": "what comes next, or something behind that, is missing",
    "paused": "an operator holds it back; see resume",
    "parked": "a message of it failed for good; see resume, skip",
}
MEMBERS = (
    output.count("number"),
    output.Column("last", "LAST", output.flag),
    output.text("state"),
    output.count("priority", "PRIO"),
    output.count("arrival"),
    output.count("delivered"),
    output.count("failed"),
    output.duration("expiry_left_ms", "LEFT"),
    output.text("age"),
    output.name("client", "LEASED TO", is_long=True),
)
JSON_KEYS = """\
  group, group_id         as text where it is text; in hexadecimal
  state                   complete, open, gap, paused, parked
  count, leased           messages of it that can be got; of them held
  delayed                 not yet to be had
  next, next_is_here      the number that comes next; whether it is here
  last                    the number that ends it, or null: not known yet
  highest, missing        number here; how many are missing below that
  holder                  the connection that has it, with its name, or ""
  first, age_ms           when its first message here came, RFC 3339; since
  parked_number           the message that failed, and why; 0, null: none
  parked_code
  closed                  whether an operator ended it
"""


def of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the *row* of a group, as a queue manager gives it, as the help describes it."""
    known = bytes.fromhex(row["group"])
    return {
        "group": group_id.shown(known),
        "group_id": known.hex(),
        **{
            key: row.get(key)
            for key in (
                "state",
                "count",
                "leased",
                "delayed",
                "next",
                "next_is_here",
                "last",
                "highest",
                "missing",
                "holder",
            )
        },
        "first": rfc3339(int(row.get("first_us") or 0)),
        "age_ms": row.get("age_ms"),
        "parked_number": row.get("parked_number", 0),
        "parked_code": name_of(code) if (code := row.get("parked_code")) else None,
        "closed": row.get("closed"),
    }


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row, as :func:`of` makes it, without what says nothing to people."""
    unusual = ("delayed", "leased", "missing", "parked_number", "closed")
    return {key: value for key, value in row.items() if value or key not in unusual}


def told(row: Mapping[str, Any]) -> str:
    """Return how a group is now, in words, for behind what was done to it."""
    if row["last"] and row["next"] > row["last"]:
        return f"it is over: number {row['last']} was its last, and nothing of it is here"
    is_so = "it has a gap" if row["state"] == "gap" else f"it is {row['state']}"
    last = f" of {row['last']}" if row["last"] else ""
    missing = f", {counted(row['missing'], 'number')} missing" if row["missing"] else ""
    here = messages(row["count"] + row["delayed"])
    return f"{is_so}, number {row['next']}{last} is next, {here} here{missing}"


def member(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of a group, as a queue manager gives it, as the help describes it."""
    known = ("number", "last", "state", "client", "priority", "arrival", "delivered", "failed")
    return {key: row.get(key) for key in known} | {
        "expiry_left_ms": row.get("expires_left_ms"),
        "put_time": rfc3339(int(row.get("put_us") or 0)),
    }


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message of a group, as :func:`member` makes it, as a row of MEMBERS."""
    put_us = datetime.fromisoformat(row["put_time"]).timestamp() * US_PER_S
    then = age(int(put_us), time.time_ns() // 1_000)
    return {**row, "last": row["last"] or None, "age": then}


def gaps_text(gaps: list[list[int]]) -> str:
    """Return numbers that are missing: "3, 7 to 9"."""
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in gaps)
