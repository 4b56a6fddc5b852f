"""Formats a message group as a row of a table, or as an object for scripts."""

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
    output.Column("next_is_here", "NEXT ON QUEUE", output.flag),
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
    "complete": "all messages from the next to the last are on the queue",
    "open": "no message is missing, but the last one has not arrived",
    "gap": "the next message, or a later one, is missing",
    "paused": "an operator paused the group; see resume",
    "parked": "a message of the group failed too often; see resume, skip",
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
  group, group_id         the id as text if possible; the id in hexadecimal
  state                   complete, open, gap, paused, parked
  count, leased           number of messages that are not delayed; number of
                          leased messages among them
  delayed                 number of delayed messages
  next, next_is_here      the next number; whether it is on the queue
  last                    the last number of the group, or null if unknown
  highest, missing        the highest number on the queue; the number of
                          missing messages below it
  holder                  the connection that owns the group, with its name,
                          or ""
  first, age_ms           arrival of the first message on the queue, RFC 3339;
                          the time since then
  parked_number,          the failed message, or 0; the reason, or null
    parked_code
  closed                  whether an operator closed the group
"""


def of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the *row* of a group from a queue manager, as described in the help."""
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
    """Returns a row made by :func:`of`, without details that are empty or zero."""
    unusual = ("delayed", "leased", "missing", "parked_number", "closed")
    return {key: value for key, value in row.items() if value or key not in unusual}


def summary(row: Mapping[str, Any]) -> str:
    """Returns the state of a group in words."""
    if row["last"] and row["next"] > row["last"]:
        return f"it has ended: number {row['last']} was its last, and it has no messages"
    state = "it has a gap" if row["state"] == "gap" else f"it is {row['state']}"
    last = f" of {row['last']}" if row["last"] else ""
    missing = f", {counted(row['missing'], 'number')} missing" if row["missing"] else ""
    here = messages(row["count"] + row["delayed"])
    return f"{state}, number {row['next']}{last} is next, {here} on the queue{missing}"


def member(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message of a group from a queue manager, as described in the help."""
    known = ("number", "last", "state", "client", "priority", "arrival", "delivered", "failed")
    return {key: row.get(key) for key in known} | {
        "expiry_left_ms": row.get("expires_left_ms"),
        "put_time": rfc3339(int(row.get("put_us") or 0)),
    }


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message of a group, made by :func:`member`, as a row of MEMBERS."""
    put_us = datetime.fromisoformat(row["put_time"]).timestamp() * US_PER_S
    then = age(int(put_us), time.time_ns() // 1_000)
    return {**row, "last": row["last"] or None, "age": then}


def gaps_text(gaps: list[list[int]]) -> str:
    """Returns missing numbers as text, as in "3, 7 to 9"."""
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in gaps)
