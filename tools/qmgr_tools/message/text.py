"""Formats a message as an object for scripts, or as lines or a row of a table for people."""

import base64
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from qmgr_protocol import group_id
from qmgr_protocol.messages import HANDLE
from qmgr_tools.cli import humanize, output
from qmgr_tools.cli.output import Column, Row

if TYPE_CHECKING:
    from qmgr_client.message import Message

PREVIEW_CHARACTERS = 60

JSON_KEYS = """\
  queue, uid, origin, timestamp  timestamp: microseconds of the origin's clock
  topic, republished             topic of a publication, else null; whether it
                                 was republished after it was parked
  priority, put_time             put_time: RFC 3339
  delivered, failed              number of deliveries; number of failures
  redelivered, leased            "no", "maybe", "yes"; whether it is leased
  correlation_id, reply_to, content_type, headers
  expiry_left_ms, delay_ms       time before expiry, or null; delay of the put
  sequence_id                    id on the link if the queue is a link's
  group, number, last            as in "qmctl group ls"; null without a group
  persistent                     whether it survives a restart of the daemon
  body_bytes, body               size; the body as text, or null if not text;
                                 a browse shows the beginning of a long body
  body_base64                    the body if it is not text, else null
  damage                         the reason if the record is unreadable, or ""
"""
LISTED_HELP = "\b\nJSON: an array of objects with\n" + JSON_KEYS
LINES_HELP = "\b\nJSON: one line for each message, an object with\n" + JSON_KEYS

COLUMNS = (
    output.whole("uid"),
    output.count("priority", "PRIO"),
    output.text("age"),
    output.text("redelivered"),
    output.Column("leased", "LEASED", output.flag),
    output.text("correlation_id", "CORRELATION"),
    output.size("body_bytes", "SIZE"),
    output.long_text("preview", "BODY"),
)
OPTIONAL = (
    output.count("sequence_id", "ID"),
    output.text("topic"),
    output.Column("republished", "REPUBLISHED", output.flag),
    output.text("group"),
    output.count("number"),
    output.Column("last", "LAST", output.flag),
    output.duration("expiry_left_ms", "LEFT"),
    output.Column("persistent", "PERSISTENT", output.flag),
)
DELAY = output.duration("delay_ms", "DELAY")
FACTS = (
    output.text("uid"),
    output.text("topic"),
    output.Column("republished", "republished", output.flag),
    output.count("priority"),
    output.text("put"),
    output.text("redelivered"),
    output.count("delivered", "delivered before"),
    output.count("failed"),
    output.text("correlation_id", "correlation id"),
    output.text("reply_to", "reply to"),
    output.text("group"),
    output.count("number"),
    output.Column("last", "last", output.flag),
    output.duration("expiry_left_ms", "time left"),
    output.duration("delay_ms", "delay"),
    output.Column("persistent", "persistent", output.flag),
    output.text("content_type", "content type"),
    output.text("headers"),
    output.size("body_bytes", "size"),
)


def as_object(message: "Message") -> dict[str, Any]:
    """Returns *message* as the object that JSON_KEYS describes."""
    uid = message.uid
    return {
        "queue": message.queue,
        "topic": message.topic or None,
        "uid": None if uid is None else str(uid),
        "origin": None if uid is None else uid.origin,
        "timestamp": None if uid is None else uid.timestamp,
        "priority": message.priority,
        "put_time": humanize.rfc3339(message.put_us),
        "delivered": message.delivered,
        "failed": message.failed,
        "redelivered": message.redelivered,
        "leased": message.leased,
        "republished": message.republished,
        "correlation_id": _lenient(message.correlation_id),
        "reply_to": message.reply_to,
        "content_type": message.content_type,
        "headers": {key: _simple(value) for key, value in message.headers.items()},
        "sequence_id": sequence_id(message),
        **place_of(message),
        "expiry_left_ms": message.expiry_left_ms,
        "delay_ms": message.delay_ms,
        "persistent": message.persistent,
        "body_bytes": message.body_bytes,
        **body_of(message.body),
        "damage": message.damage,
    }


def body_of(body: bytes) -> dict[str, str | None]:
    """Returns *body* as text, or in base64 if it is not text."""
    text = text_of(body)
    coded = base64.b64encode(body).decode() if text is None else None
    return {"body": text, "body_base64": coded}


def place_of(message: "Message") -> dict[str, Any]:
    """Returns the group, the number and the last flag of *message*, or None for each."""
    group = message.group
    if group is None:
        return dict.fromkeys(("group", "number", "last"))
    return {"group": group_id.shown(group.id), "number": group.number, "last": group.last}


def sequence_id(message: "Message") -> int | None:
    """Returns the id of *message* on its link, or None if the queue is not a link's."""
    if not message.queue.startswith("@"):
        return None
    arrival: int = HANDLE.unpack(message.handle)[1]
    return arrival


def as_row(message: "Message") -> dict[str, Any]:
    """Returns *message* as a row of COLUMNS."""
    body = text_of(message.body)
    preview = f"({humanize.size(message.body_bytes)} binary)" if body is None else body
    preview = f"(damaged: {message.damage})" if message.damage else preview
    if len(preview) > PREVIEW_CHARACTERS:
        preview = preview[: PREVIEW_CHARACTERS - 1] + "…"
    now_us = time.time_ns() // 1000
    age = humanize.age(message.put_us, now_us)
    return as_object(message) | _unusual(message) | {"age": age, "preview": preview}


def columns_of(rows: Sequence[Row], *, delayed: bool) -> list[Column]:
    """Returns COLUMNS, and the optional columns that have values.

    The time of delivery is not shown, because a message that fails is delayed again.
    """
    optional = (*OPTIONAL, DELAY) if delayed else OPTIONAL
    more = [column for column in optional if any(column.cell(row) for row in rows)]
    return [*COLUMNS[:-2], *more, *COLUMNS[-2:]]


def _unusual(message: "Message") -> dict[str, Any]:
    """Returns the values that are shown to people only if they are unusual."""
    group = message.group
    return {
        "last": True if group is not None and group.last else None,
        "delay_ms": message.delay_ms or None,
        "republished": True if message.republished else None,
        "persistent": None if message.persistent else False,
    }


def show(message: "Message", without: Sequence[str] = ()) -> None:
    """Prints the properties of *message* except those in *without*, then the body, for people."""
    known = as_object(message)
    age = humanize.age(message.put_us, time.time_ns() // 1000)
    known |= _unusual(message) | {
        "put": f"{known['put_time']} ({age})",
        "headers": ", ".join(f"{key}={value}" for key, value in known["headers"].items()),
        "delivered": message.delivered or None,
        "failed": message.failed or None,
    }
    output.facts([fact for fact in FACTS if fact.key not in without], known)
    print()
    show_body(message.body)
    if message.cut_bytes:
        print(f"(the first {len(message.body):,} of {message.body_bytes:,} bytes)")


def show_body(body: bytes) -> None:
    """Prints *body* for people, followed by an empty line."""
    text = text_of(body)
    if text is None:
        print(f"(binary; in base64)\n{base64.b64encode(body).decode()}")
    elif sys.stdout.isatty():
        # A message must not send control characters to the terminal.
        print("\n".join(map(output.plain, text.split("\n"))))
    else:
        print(text)
    print()


def text_of(body: bytes) -> str | None:
    """Returns *body* as text, or None if it is not text."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def is_printable(body: bytes) -> bool:
    """Returns whether *body* is text without control characters except line ends and tabs."""
    text = text_of(body)
    if text is None:
        return False
    return text.replace("\r\n", "\n").translate({ord("\n"): "", ord("\t"): ""}).isprintable()


def _lenient(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _simple(value: Any) -> Any:
    """Returns a header's value in a form that JSON can represent."""
    if isinstance(value, bytes):
        return _lenient(value)
    if isinstance(value, dict):
        return {str(key): _simple(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_simple(inner) for inner in value]
    return value
