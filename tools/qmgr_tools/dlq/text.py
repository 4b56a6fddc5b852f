"""Formats a dead letter as a row of a table, as details, or as an object for scripts."""

import time
from typing import TYPE_CHECKING, Any

from qmgr_protocol.errors import name_of
from qmgr_tools.cli import humanize, output
from qmgr_tools.message import text as message_text

if TYPE_CHECKING:
    from qmgr_client.message import Message

COLUMNS = (
    output.whole("uid"),
    output.text("origin_queue", "FROM"),
    output.long_text("code"),
    output.name("reason", is_long=True),
    output.count("failed"),
    output.count("delivered"),
    output.count("retries"),
    output.text("age"),
    output.size("body_bytes", "SIZE"),
    output.text("manager"),
    output.name("text"),
    output.text("group"),
    output.count("number"),
    output.Column("last", "LAST", output.flag),
)
LISTED = (
    "uid",
    "origin_queue",
    "code",
    "reason",
    "failed",
    "delivered",
    "retries",
    "age",
    "body_bytes",
)
FACTS = (
    output.text("origin_queue", "from"),
    output.text("manager"),
    output.text("code"),
    output.text("reason"),
    output.text("text"),
    output.text("dead"),
    output.count("failed"),
    output.count("delivered"),
    output.count("retries"),
    output.duration("left_ms", "time left"),
)
ATTEMPTS = (
    output.text("time"),
    output.text("code"),
    output.name("reason"),
    output.name("client"),
    output.long_text("text"),
)
JSON_KEYS = """\
  dead      null if it is not a dead letter, else an object with
    code, reason, text    the error code, and the consumer's report
    queue, manager        the original queue
    time                  when it became a dead letter, RFC 3339
    failed, delivered     its failures and deliveries on that queue
    retries               number of retries
    left_ms               remaining time before expiry; null: no expiry
  attempts  an array of its failures: time, code, reason, text, client
"""


def dead_of(message: "Message") -> dict[str, Any] | None:
    """Returns the header of a dead letter, or None if *message* is not one."""
    dead = message.dead
    if dead is None:
        return None
    return {
        "code": dead.code_name,
        "reason": dead.reason,
        "text": dead.text,
        "queue": dead.queue,
        "manager": dead.manager,
        "time": humanize.rfc3339(dead.us),
        "failed": dead.failed,
        "delivered": dead.delivered,
        "retries": dead.retries,
        "left_ms": dead.left_ms,
    }


def attempts_of(message: "Message") -> list[dict[str, Any]]:
    """Returns the failures of a message, oldest first."""
    return [
        {
            "time": humanize.rfc3339(attempt.us),
            "code": name_of(attempt.code) if attempt.code else "",
            "reason": attempt.reason,
            "text": attempt.text,
            "client": attempt.client,
        }
        for attempt in message.attempts
    ]


def as_object(message: "Message") -> dict[str, Any]:
    """Returns a dead letter as the object described in the help."""
    found = message_text.as_object(message)
    return found | {"dead": dead_of(message), "attempts": attempts_of(message)}


def _reason(dead: dict[str, Any]) -> dict[str, Any]:
    """Returns reason and text for people. An operator's skip has the code of a rejection."""
    if (dead.get("reason"), dead.get("text")) == ("skipped", "by an operator"):
        return {"reason": "skipped by an operator", "text": ""}
    return {}


def as_row(message: "Message") -> dict[str, Any]:
    """Returns a dead letter as a row of COLUMNS."""
    dead = dead_of(message) or {}
    age = humanize.age(message.dead.us if message.dead else message.put_us, time.time_ns() // 1_000)
    dead |= message_text.place_of(message) | _reason(dead)
    return dead | {
        "uid": str(message.uid),
        "origin_queue": dead.get("queue"),
        "age": age,
        "body_bytes": message.body_bytes,
    }


def show(message: "Message") -> None:
    """Prints the reason and the failures of a dead letter, then the message, for people."""
    dead = dead_of(message)
    if dead is None:
        output.say("this message is not a dead letter: a producer put it on this queue")
    else:
        age = humanize.age(message.dead.us if message.dead else 0, time.time_ns() // 1_000)
        facts = {"origin_queue": dead["queue"], "dead": f"{dead['time']} ({age})"}
        output.facts(FACTS, dead | facts | _reason(dead))
    found = attempts_of(message)
    if found:
        print()
        used = [column for column in ATTEMPTS if any(map(column.cell, found))]
        output.table(used, found)
    print()
    # "redelivered" counts deliveries on this queue only, which would contradict the numbers above.
    message_text.show(message, without=("redelivered",) if dead else ())
