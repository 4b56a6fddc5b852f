"""The contents of protocol/spec.json: the tables of PROTOCOL.md as data, generated from the code.

`pytest tests/qmgr_protocol --rewrite` regenerates the file.
"""

import struct
from typing import Any

from qmgr_protocol import codec, connection, layout, record
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode
from qmgr_protocol.field import description_of
from qmgr_protocol.frame import FRAME_MAX_BYTES_BEFORE_HELLO, LENGTH
from qmgr_protocol.limits import CLIENT_NAME_MAX
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.name import NAME_MAX
from qmgr_protocol.states import Side
from qmgr_protocol.transitions import QUEUE_MANAGER_ONLY, TRANSITIONS
from qmgrd.core import peer
from qmgrd.core.queue import notes
from qmgrd.core.queue.facts import BUILT_IN
from qmgrd.core.selector import lexer as selector_lexer
from qmgrd.core.selector import parser as selector_parser
from qmgrd.core.selector import pattern as selector_pattern
from qmgrd.core.sessions import session
from tests.qmgr_protocol.golden import VECTORS, shown

PATH = VECTORS.parent / "spec.json"
FIRST_VERSION = 1  # the version that added all current messages

_WIDTHS = {"B": "u8", "H": "u16", "I": "u32", "Q": "u64"}
_RECORD_FLAGS = {
    "priority_of_queue": record.FLAG_PRIORITY_OF_QUEUE,
    "not_persistent": record.FLAG_NOT_PERSISTENT,
    "report": record.FLAG_REPORT_EXPIRY,
    "retained": record.FLAG_RETAINED,
    "delayed": record.FLAG_DELAYED,
}
_STATES = {
    "redelivered": m.STATE_REDELIVERED,
    "maybe_redelivered": m.STATE_MAYBE_REDELIVERED,
    "leased": m.STATE_LEASED,
    "expires": m.STATE_EXPIRES,
    "noted": m.STATE_NOTED,
    "taken_over": m.STATE_TAKEN_OVER,
    "published": m.STATE_TOPIC,
    "republished": m.STATE_REPUBLISHED,
}
_DELIVERY = ["priority", "arrival", "lease_number", "delivered", "failed", "state", "put_us"]
_ACTIONS = {
    "acknowledge": m.ACK,
    "release": m.RELEASE,
    "return": m.RETURN,
    "unread": m.UNREAD,
    "reject": m.REJECT,
    "renew": m.RENEW,
}
_ORDERS = {"physical": m.PHYSICAL, "logical": m.LOGICAL, "pinned": m.PINNED, "arrival": m.ARRIVAL}


def spec() -> dict[str, Any]:
    """Returns the whole specification in a form that JSON can represent."""
    found: dict[str, Any] = shown(
        {
            "protocol": m.MAGIC,
            "version": m.VERSION,
            "frame": _frame(),
            "msgpack": _msgpack(),
            "handshake": _handshake(),
            "connection": _connection(),
            "states": _states(),
            "queue_managers_only": sorted(
                [side.value, kind.__name__] for side, kind in QUEUE_MANAGER_ONLY
            ),
            "messages": [
                _message(number, found.kind) for number, found in sorted(OPERATIONS.items())
            ],
            "error_classes": [
                {"number": int(each), "name": each.word, "meaning": each.means}
                for each in ErrorClass
            ],
            "errors": [
                {
                    "code": int(code),
                    "name": code.name,
                    "class": code.error_class.word,
                    "meaning": code.means,
                }
                for code in ErrorCode
            ],
            "record": _record(),
            "delivery": _delivery(),
            "handle": _head(m.HANDLE, _DELIVERY[:3]),
            "settle_actions": _ACTIONS,
            "orders": _ORDERS,
            "selector": _selector(),
        }
    )
    return found


def _frame() -> dict[str, Any]:
    return {
        "length": "u32",
        "length_bytes": LENGTH.size,
        "byte_order": "big",
        "listener_bytes_max_before_welcome": FRAME_MAX_BYTES_BEFORE_HELLO,
        "dialler_bytes_max_before_welcome": connection.FRAME_MAX_LEAST_BYTES,
        "frame_max_bytes_least": connection.FRAME_MAX_LEAST_BYTES,
    }


def _msgpack() -> dict[str, Any]:
    return {
        "elements_max": codec.LENGTH_MAX,
        "memory_bytes_max": codec.BUILT_MAX_BYTES,
        "client_memory_bytes_max": codec.REQUEST_BUILT_MAX_BYTES,
        "link_memory_bytes_max": codec.LINK_BUILT_MAX_BYTES,
        "client_container_bytes": codec.REQUEST_CONTAINER_BYTES,
        "client_flat_above_bytes": codec.FLAT_BYTES,
        "client_flat_elements_max": codec.FLAT_ELEMENTS_MAX,
        "container_bytes": codec.CONTAINER_BYTES,
        "element_bytes": codec.ELEMENT_BYTES,
        "written": {"integers": "shortest", "lengths": "shortest", "float_bits": 64},
    }


def _handshake() -> dict[str, Any]:
    return {
        "magic": m.MAGIC,
        "versions": [m.VERSION],
        "roles": ["client", "queue-manager"],
        "client_name_characters_max": CLIENT_NAME_MAX,
        "queue_manager_name": f"[A-Za-z0-9._-]{{1,{NAME_MAX}}}",
        "store_id_bytes": connection.STORE_ID_BYTES,
        "auth_methods": ["none"],
    }


def _connection() -> dict[str, Any]:
    return {"streams_max": session.STREAMS_MAX, "heartbeats_at_once_max": peer.HEARTBEATS_MAX}


def _states() -> list[list[str]]:
    order = list(Side)
    return [
        [state.name, side.value, kind.__name__, after.name]
        for (state, side, kind), after in sorted(
            TRANSITIONS.items(),
            key=lambda x: (x[0][0].name, order.index(x[0][1]), layout.NUMBERS[x[0][2]]),
        )
    ]


def _message(number: int, kind: type[Any]) -> dict[str, Any]:
    senders = {side.value for _, side, sent in TRANSITIONS if sent is kind}
    found: dict[str, Any] = {
        "number": number,
        "name": kind.__name__,
        "sent_by": sorted(senders),
        "since": FIRST_VERSION,
        "written_always": layout.written_always(kind),
        "fields": [
            _field(kind, name, check)
            for name, check in zip(kind._fields, layout.checks_of(kind), strict=True)
        ],
    }
    reply = layout.reply_check_of(kind)
    return found if reply is None else {**found, "reply": description_of(reply)}


def _field(kind: type[Any], name: str, check: Any) -> dict[str, Any]:
    found = {"name": name, "type": description_of(check)}
    if name in kind._field_defaults:
        found["default"] = kind._field_defaults[name]
    return found


def _head(packed: struct.Struct, names: list[str]) -> dict[str, Any]:
    """Returns the fields of *packed*, which have these *names*, each with its offset."""
    codes = packed.format.removeprefix(">")
    return {
        "bytes": packed.size,
        "fields": [
            {"name": name, "type": _WIDTHS[code], "offset": struct.calcsize(">" + codes[:at])}
            for at, (name, code) in enumerate(zip(names, codes, strict=True))
        ],
    }


def _record() -> dict[str, Any]:
    return {
        "byte_order": "big",
        "version": record.VERSION,
        "checksum": {"algorithm": "crc32", "from_byte": record.SUMMED_AT},
        "head": _head(record.HEAD, list(record.Head._fields)),
        "parts": [
            {"name": "correlation_id", "type": "binary", "length_in": "correlation_length"},
            {
                "name": "group_id",
                "type": "binary",
                "bytes": record.GROUP_ID_BYTES,
                "if_set": ["group_flags", "in_group"],
            },
            {"name": "group_number", "type": "u32", "if_set": ["group_flags", "in_group"]},
            {"name": "delay_ms", "type": "u64", "if_set": ["flags", "delayed"]},
            {"name": "envelope", "type": "msgpack", "length_in": "envelope_length"},
            {"name": "body", "type": "binary", "length_in": "body_length"},
            {"name": "origin", "type": "text", "length_in": "origin_length"},
            {"name": "timestamp", "type": "u64", "if_not_zero": "origin_length"},
        ],
        "flags": _RECORD_FLAGS,
        "flags_refused": record.FLAGS_NOT_UNDERSTOOD,
        "group_flags": {"in_group": record.IN_GROUP, "last": record.LAST_IN_GROUP},
        "envelope_keys": [
            record.HEADERS,
            record.REPLY_TO,
            record.CONTENT_TYPE,
            "traceparent",
            "tracestate",
        ],
        "priority_max": record.PRIORITY_MAX,
        "priority_usual": record.PRIORITY_DEFAULT,
        "correlation_bytes_max": record.CORRELATION_MAX_BYTES,
        "envelope_bytes_max": record.ENVELOPE_MAX_BYTES,
        "expiry_ms_max": record.EXPIRY_END - 1,
        "delay_ms_max": record.DELAY_MAX_MS,
        "group_number_max": record.GROUP_NUMBER_MAX,
        "origin_bytes_max": NAME_MAX,
        "timestamp_max": record.TIMESTAMP_MAX,
    }


def _delivery() -> dict[str, Any]:
    return {
        "head": _head(m.DELIVERY, _DELIVERY),
        "state": _STATES,
        "parts": [
            {"name": "record", "type": "record"},
            {"name": "topic", "type": "text", "length": "u8", "if_set": ["state", "published"]},
            {"name": "remaining_ms", "type": "u64", "if_set": ["state", "expires"]},
            {"name": "note", "type": "msgpack", "length": "rest", "if_set": ["state", "noted"]},
        ],
    }


def _selector() -> dict[str, Any]:
    return {
        "keywords": sorted(selector_lexer.KEYWORDS),
        "identifiers": {
            "any": list(BUILT_IN),
            "publication": ["topic", "subscription"],
            "note": list(notes.facts_of({})),
        },
        "characters_max": selector_lexer.TEXT_MAX,
        "nested_max": selector_parser.DEPTH_MAX,
        "terms_max": selector_parser.TERMS_MAX,
        "in_max": selector_parser.IN_MAX,
        "like_characters_max": selector_pattern.LIKE_TEXT_MAX,
    }
