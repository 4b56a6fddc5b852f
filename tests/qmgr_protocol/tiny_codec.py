"""A codec that is built from protocol/spec.json alone.

A codec in another language could be written in the same way. The module does not import code of the
project.
"""

import struct
from typing import Any
from zlib import crc32

import msgpack

Json = dict[str, Any]
_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}


class Refused(Exception):
    """Raised if the bytes are not a valid message or record."""


def read(value: Any) -> Any:
    """Returns the value that *value*, a JSON value, represents."""
    if isinstance(value, dict):
        if set(value) == {"hex"}:
            return bytes.fromhex(value["hex"])
        if set(value) == {"integer"}:
            return int(value["integer"])
        return {key: read(item) for key, item in value.items()}
    return [read(item) for item in value] if isinstance(value, list) else value


class Codec:
    """Converts messages and records to bytes and back."""

    def __init__(self, spec: Json) -> None:
        self._spec: Json = read(spec)
        self._by_name = {each["name"]: each for each in self._spec["messages"]}
        self._by_number = {each["number"]: each for each in self._spec["messages"]}

    def encode(self, name: str, given: Json) -> bytes:
        """Returns a message as a frame. *given* maps the names of its fields to values."""
        kind = self._by_name[name]
        fields = kind["fields"]
        values = [given[x["name"]] if x["name"] in given else x["default"] for x in fields]
        always = kind["written_always"]
        if values[always:] == [field["default"] for field in fields[always:]]:
            del values[always:]
        body: bytes = msgpack.packb([kind["number"], *values], use_bin_type=True)
        return struct.pack(">I", len(body)) + body

    def decode(self, frame: bytes) -> tuple[str, Json]:
        """Returns the name of the message in *frame*, and its fields."""
        (length,) = struct.unpack_from(">I", frame)
        assert len(frame) == 4 + length
        number, *values = msgpack.unpackb(frame[4:], raw=False)
        kind = self._by_number[number]
        found: Json = {}
        for at, field in enumerate(kind["fields"]):
            if at < len(values):
                if not fits(field["type"], values[at]):
                    raise Refused(f"{kind['name']}.{field['name']}")
                found[field["name"]] = values[at]
            elif "default" in field:
                found[field["name"]] = field["default"]
            else:
                raise Refused(f"{kind['name']}.{field['name']} is missing")
        return kind["name"], found

    def encode_record(self, given: Json) -> bytes:
        """Returns a record. *given* contains its parts, and fields of the head."""
        layout = self._spec["record"]
        head: Json = {field["name"]: 0 for field in layout["head"]["fields"]}
        head |= {"version": layout["version"]} | {x: given[x] for x in given if x in head}
        parts = b""
        for part in layout["parts"]:
            if part["name"] not in given:
                continue
            data = _part_bytes(part, given[part["name"]])
            if "length_in" in part:
                head[part["length_in"]] = len(data)
            if "if_set" in part:
                field, flag = part["if_set"]
                head[field] |= self._flags(field)[flag]
            parts += data
        packed = (
            b"".join(
                struct.pack(">" + _CODES[field["type"]], head[field["name"]])
                for field in layout["head"]["fields"]
            )
            + parts
        )
        return struct.pack(">I", crc32(packed[layout["checksum"]["from_byte"] :])) + packed[4:]

    def _flags(self, field: str) -> dict[str, int]:
        """Returns the names of the flags in *field* of a record or of a delivery."""
        record, delivery = self._spec["record"], self._spec["delivery"]
        flags: dict[str, int] = record[field] if field in record else delivery[field]
        return flags

    def decode_record(self, data: bytes) -> Json:
        """Returns the head and the parts of a record."""
        layout = self._spec["record"]
        found = _head(layout["head"], data)
        if crc32(data[layout["checksum"]["from_byte"] :]) != found["checksum"]:
            raise Refused("checksum")
        end = self._parts(layout["parts"], data, layout["head"]["bytes"], found)
        if end != len(data) or found["flags"] & layout["flags_refused"]:
            raise Refused("lengths or flags")
        return found

    def decode_delivery(self, item: bytes) -> Json:
        """Returns the head of a delivered item, its record, and the rest."""
        layout = self._spec["delivery"]
        found = _head(layout["head"], item)
        start = layout["head"]["bytes"]
        record = self._spec["record"]
        length = self._parts(
            record["parts"],
            item[start:],
            record["head"]["bytes"],
            _head(record["head"], item[start:]),
        )
        found["record"] = item[start : start + length]
        self._parts(layout["parts"][1:], item, start + length, found)
        return found

    def _parts(self, parts: list[Json], data: bytes, at: int, found: Json) -> int:
        """Adds *parts* of *data* from offset *at* to *found*; returns the offset after them."""
        for part in parts:
            if "if_set" in part:
                field, flag = part["if_set"]
                if not found[field] & self._flags(field)[flag]:
                    continue
            if "if_not_zero" in part and not found[part["if_not_zero"]]:
                continue
            if part.get("length") == "u8":
                length, at = data[at], at + 1
            elif part.get("length") == "rest":
                length = len(data) - at
            elif "length_in" in part:
                length = found[part["length_in"]]
            else:
                length = part["bytes"] if "bytes" in part else struct.calcsize(_CODES[part["type"]])
            found[part["name"]] = _value(part["type"], data[at : at + length])
            at += length
        return at


def _head(layout: Json, data: bytes) -> Json:
    return {
        field["name"]: struct.unpack_from(">" + _CODES[field["type"]], data, field["offset"])[0]
        for field in layout["fields"]
    }


def _part_bytes(part: Json, value: Any) -> bytes:
    kind = part["type"]
    if kind in _CODES:
        return struct.pack(">" + _CODES[kind], value)
    if kind == "msgpack":
        packed: bytes = msgpack.packb(value, use_bin_type=True) if value else b""
        return packed
    return value.encode() if kind == "text" else bytes(value)


def _value(kind: str, data: bytes) -> Any:
    if kind in _CODES:
        return struct.unpack(">" + _CODES[kind], data)[0]
    if kind == "msgpack":
        return msgpack.unpackb(data, raw=False) if data else {}
    return data.decode() if kind == "text" else data


def fits(kind: Json, value: Any) -> bool:
    """Returns whether *value* is of the type *kind*."""
    match kind["type"]:
        case "nil":
            return value is None
        case "flag":
            return isinstance(value, bool)
        case "float":
            return isinstance(value, float)
        case "any":
            return True
        case "either":
            return any(fits(each, value) for each in kind["of"])
        case "integer":
            if type(value) is not int:
                return False
            return value in kind["values"] if "values" in kind else _is_between(kind, value)
        case "text":
            return isinstance(value, str) and len(value) <= kind["characters_max"]
        case "binary":
            return isinstance(value, bytes) and _has_length(kind, len(value))
    return _fits_container(kind, value)


def _fits_container(kind: Json, value: Any) -> bool:
    if len(value) > kind.get("length_max", len(value)) if isinstance(value, list | dict) else True:
        return False
    match kind["type"]:
        case "array":
            return isinstance(value, list) and all(fits(kind["of"], each) for each in value)
        case "row":
            columns = kind["columns"]
            return (
                isinstance(value, list)
                and len(value) >= len(columns)
                and all(map(fits, columns, value))
            )
        case "map":
            return isinstance(value, dict) and all(
                fits(kind["keys"], key) and fits(kind["values"], item)
                for key, item in value.items()
            )
    raise AssertionError(kind)


def _is_between(kind: Json, value: int) -> bool:
    return bool(kind["min"] <= value <= kind["max"])


def _has_length(kind: Json, length: int) -> bool:
    if "bytes" in kind:
        return bool(length == kind["bytes"])
    too_long = length > kind.get("bytes_max", length)
    return not too_long and length % int(kind.get("multiple_of", 1)) == 0
