"""Tests that protocol/spec.json agrees with the code, and is sufficient to write a codec."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.field import description_of
from tests.qmgr_protocol import spec, tiny_codec
from tests.qmgr_protocol.golden import text_of
from tests.qmgr_protocol.test_protocol_document import MESSAGES, rows, section
from tests.qmgr_protocol.test_vectors import vectors
from tests.qmgr_protocol.tiny_codec import Codec, Refused, fits, read

ID = {"type": "integer", "min": 1, "max": 2**32 - 1}
WORDS: dict[str, dict[str, Any]] = {
    "u8": {"type": "integer", "min": 0, "max": 2**8 - 1},
    "u16": {"type": "integer", "min": 0, "max": 2**16 - 1},
    "u32": {"type": "integer", "min": 0, "max": 2**32 - 1},
    "u64": {"type": "integer", "min": 0, "max": 2**63 - 1},
    "id": ID,
    "seq": {"type": "integer", "min": 1, "max": 2**63 - 1},
    "flag": {"type": "flag"},
    "text": {"type": "text", "characters_max": 1_024},
    "name": {"type": "text", "characters_max": 1_024},
    "binary": {"type": "binary"},
    "nil": {"type": "nil"},
}


def test_file_holds_what_the_code_makes(request: pytest.FixtureRequest) -> None:
    text = text_of(spec.spec())
    if request.config.getoption("rewrite", default=False):
        spec.PATH.write_text(text)
    assert spec.PATH.read_text() == text


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec(json.loads(spec.PATH.read_text()))


def test_tiny_codec_knows_nothing_else() -> None:
    tree = ast.parse(Path(tiny_codec.__file__).read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported == {"struct", "typing", "zlib", "msgpack"}


@pytest.mark.parametrize("vector", vectors("messages.json"))
def test_message_is_read_and_written_to_the_same_bytes(
    codec: Codec, vector: dict[str, Any]
) -> None:
    data, fields = bytes.fromhex(vector["hex"]), read(vector["fields"])
    assert codec.decode(data) == (vector["message"], fields)
    assert codec.encode(vector["message"], fields) == data


@pytest.mark.parametrize("vector", vectors("records.json"))
def test_record_is_read_and_written_to_the_same_bytes(codec: Codec, vector: dict[str, Any]) -> None:
    data, fields = bytes.fromhex(vector["hex"]), read(vector["fields"])
    parts = {
        name: fields[name]
        for name in ("body", "priority", "flags", "expiry_ms", "correlation_id", "envelope")
    }
    if fields["uid"]:
        parts |= fields["uid"]
    if fields["group"]:
        group_id, number, last = fields["group"]
        last_flag = spec.spec()["record"]["group_flags"]["last"]
        parts |= {
            "group_id": group_id,
            "group_number": number,
            "group_flags": last_flag if last else 0,
        }
    if fields["delay_ms"]:
        parts["delay_ms"] = fields["delay_ms"]
    assert codec.encode_record(parts) == data
    found = codec.decode_record(data)
    assert {name: found[name] for name in parts if "flags" not in name} == {
        name: parts[name] for name in parts if "flags" not in name
    }


@pytest.mark.parametrize("vector", [x for x in vectors("newer.json") if "reads_as" in x.values[0]])
def test_message_of_a_newer_peer_is_read(codec: Codec, vector: dict[str, Any]) -> None:
    expected = vector["reads_as"]
    found = codec.decode(bytes.fromhex(vector["hex"]))
    assert found == (expected["message"], read(expected["fields"]))


@pytest.mark.parametrize(
    "vector",
    [
        x
        for x in vectors("refused.json")
        if x.values[0]["what"] == "frame" and x.values[0]["code"] == ErrorCode.FIELD_INVALID
    ],
)
def test_field_out_of_its_type_is_refused(codec: Codec, vector: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        codec.decode(bytes.fromhex(vector["hex"]))


def test_delivery_is_read(codec: Codec) -> None:
    by_name = {x.values[0]["name"]: x.values[0] for x in vectors("messages.json")}
    _, fields = codec.decode(bytes.fromhex(by_name["Deliver of a publication"]["hex"]))
    found = codec.decode_delivery(fields["items"][0])
    assert (found["priority"], found["arrival"], found["delivered"]) == (4, 17, 1)
    assert codec.decode_record(found["record"])["body"] == b"hello"
    assert found["topic"] == "flights/JFK/UA"
    assert (found["remaining_ms"], found["note"]) == (59_000, {"retries": 1})


@pytest.mark.parametrize("kind", layout.NUMBERS, ids=lambda kind: kind.__name__)
def test_types_are_the_checks_of_the_code(kind: type[Any]) -> None:
    """The spec and the code accept and refuse the same values: at limits, and of other types."""
    for check in layout.checks_of(kind):
        described = read(description_of(check))
        for value in edges(described):
            assert fits(described, value) is (check(value) == ""), (described, value)


def edges(kind: dict[str, Any]) -> list[Any]:
    found: list[Any] = [None, True, 1.5, "x", "x" * 5_000, b"", b"x", b"x" * 16, b"x" * 24, [], {}]
    for bound in ("min", "max"):
        if bound in kind:
            found += [kind[bound] - 1, kind[bound], kind[bound] + 1]
    if "characters_max" in kind:
        found += ["x" * kind["characters_max"], "x" * (kind["characters_max"] + 1)]
    if "bytes_max" in kind:
        found += [bytes(kind["bytes_max"]), bytes(kind["bytes_max"] + 1)]
    found += range(5)
    if "of" in kind and kind["type"] == "array":
        inner = edges(kind["of"])
        found += [[each] for each in inner] + [[1] * (kind.get("length_max", 0) + 1)]
    if kind["type"] == "row":
        found += [[1] * length for length in range(6)]
    if kind["type"] == "map":
        found += [{"k": each} for each in edges(kind["values"])]
    return found


# -- agreement with PROTOCOL.md


@pytest.mark.parametrize("part", MESSAGES, ids=lambda part: part.split("`")[1])
def test_page_has_the_types_of_the_code(part: str) -> None:
    name = re.match(r"\d+ `(\w+)`", part)
    assert name
    kind = getattr(m, name[1])
    table = [row for row in rows(part) if row[0].startswith("`")]
    for (_, cell, _, meaning), check in zip(table, layout.checks_of(kind), strict=True):
        assert agrees(cell, meaning, read(description_of(check))), (cell, description_of(check))


def agrees(cell: str, meaning: str, kind: dict[str, Any]) -> bool:
    """Returns whether a cell of the page describes *kind* and its bounds."""
    if cell in ("any", "map"):
        return str(kind["type"]) == cell
    if cell.startswith("array of "):
        return kind["type"] == "array" and agrees(cell[9:], meaning, kind["of"])
    if cell.startswith("nil or "):
        return kind["of"][0] == WORDS["nil"] and agrees(cell[7:], meaning, kind["of"][1])
    if cell.startswith("["):
        words = [word for word in cell.strip("[]").split(", ") if word != "..."]
        return kind["type"] == "row" and all(map(agrees, words, [""] * 9, kind["columns"]))
    if cell == "ms":
        return (
            kind["type"] == "integer"
            and kind["min"] == 0
            and (kind == WORDS["u64"] or "at most" in meaning)
        )
    if numbers := re.fullmatch(r"(-?[\d,]+) (?:to|or) ([\d,]+)(\^32 - 1)?", cell):
        low, high = (int(each.replace(",", "")) for each in numbers.groups()[:2])
        return (kind["min"], kind["max"]) == (low, 2**32 - 1 if numbers[3] else high)
    if cell == "0, 1 or 3":
        return bool(kind["values"] == [0, 1, 3])
    return _agrees_with_a_length(cell, kind)


def _agrees_with_a_length(cell: str, kind: dict[str, Any]) -> bool:
    if exact := re.fullmatch(r"binary\(=(\d+)\)( or empty)?", cell):
        wanted = [{"type": "binary", "bytes": 0}] if exact[2] else []
        wanted.append({"type": "binary", "bytes": int(exact[1])})
        return bool((kind["of"] if exact[2] else [kind]) == wanted)
    if most := re.fullmatch(r"(text|binary)\((\d+)\)", cell):
        bound = {"text": "characters_max", "binary": "bytes_max"}[most[1]]
        return bool(kind["type"] == most[1] and kind[bound] == int(most[2]))
    return kind == WORDS[cell]


def test_page_names_the_fields_that_are_always_written() -> None:
    found = {
        row[0].strip("`"): (re.findall(r"\d+", row[1])[0], re.findall(r"`(\w+)`", row[1])[0])
        for row in rows(section(15).replace("\n   |", "\n|"))
        if row[1].startswith("the first ")
    }
    assert found == {
        kind.__name__: (str(count), kind._fields[count - 1])
        for kind in layout.NUMBERS
        if (count := layout.written_always(kind)) < len(kind._fields)
    }


def test_page_names_each_key_of_the_file() -> None:
    named = set(re.findall(r"`(\w+)`", section(15)))
    assert set(spec.spec()) <= named
    types = set(re.findall(r'"type": "(\w+)"', json.dumps(spec.spec()["messages"])))
    assert types <= named


def test_page_names_the_identifiers_of_selectors() -> None:
    identifiers = spec.spec()["selector"]["identifiers"]
    cells = [
        row[0]
        for row in rows(section(8))
        if row[-1] in ("any message", "a publication")
        or row[-1].startswith("a message with a note")
    ]
    found = re.findall(r"`(\w+)`", " ".join(cells))
    assert found == [*identifiers["any"], *identifiers["publication"], *identifiers["note"]]
