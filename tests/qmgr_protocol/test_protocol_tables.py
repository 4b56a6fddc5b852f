"""Tests that sections 10 and 11 of PROTOCOL.md agree with the declarations."""

import re
from typing import Any, get_args, get_type_hints

import pytest

from qmgr_client import manager_rows, rows
from qmgr_protocol import field_type
from qmgr_protocol import messages as m
from qmgr_protocol.codec import LENGTH_MAX
from qmgr_protocol.field import Check, Description, description_of
from qmgr_protocol.layout import checks_of
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.operation import AnsweredBy
from tests.qmgr_protocol.test_protocol_document import MESSAGES, section
from tests.qmgr_protocol.test_protocol_document import rows as cells_of

INTEGERS = {
    (0, 2**8 - 1): "u8",
    (0, 2**16 - 1): "u16",
    (0, 2**32 - 1): "u32",
    (0, 2**63 - 1): "u64",
    (1, 2**32 - 1): "id",
    (1, 2**63 - 1): "seq",
    (0, 1): "0 or 1",
}
NAMES = {get_args(kind)[1] for kind in (field_type.Name, field_type.Names, field_type.PreviousName)}
TEXT_MAX = 1_024  # maximum characters, unless the table gives another number
HOUR_MS, DAY_MS = 3_600_000, 24 * 3_600_000
FIELDS = [
    (OPERATIONS[int(part.split()[0])].kind, row, check)
    for part in MESSAGES
    for row, check in zip(
        [row for row in cells_of(part) if row[0].startswith("`")],
        OPERATIONS[int(part.split()[0])].checks,
        strict=True,
    )
]


def type_of(found: Description) -> str:
    """Returns the name of a type, as defined in section 2."""
    kind = found["type"]
    if kind == "integer":
        return integer(found)
    if kind == "text":
        return "text" if found["characters_max"] == TEXT_MAX else f"text({found['characters_max']})"
    if kind == "binary":
        size = f"={found['bytes']}" if "bytes" in found else str(found.get("bytes_max", ""))
        return f"binary({size})" if size else "binary"
    if kind == "either":
        first, second = found["of"]
        if first == {"type": "binary", "bytes": 0}:
            return f"{type_of(second)} or empty"
        return f"{type_of(first)} or {type_of(second)}"
    if kind == "array":
        return f"array of {type_of(found['of'])}"
    return f"[{', '.join(map(type_of, found['columns']))}]" if kind == "row" else str(kind)


def integer(found: Description) -> str:
    if "values" in found:
        *others, last = map(str, found["values"])
        return f"{', '.join(others)} or {last}"
    low, high = found["min"], found["max"]
    return INTEGERS.get((low, high), f"{low:,} to {high:,}")


def limits_of(found: Description) -> list[str]:
    """Returns the limits that the last cell must contain because the type does not express them."""
    limits = []
    if found["type"] == "array" and found.get("length_max", LENGTH_MAX) != LENGTH_MAX:
        limits.append(f"t most {found['length_max']:,}")
    if found["type"] == "any":
        limits.append(f"at most {found['depth_max']} deep")
    if found.get("multiple_of", 1) != 1:
        limits.append(f"a multiple of {found['multiple_of']} bytes")
    return limits


def is_ms(name: str, found: Description) -> bool:
    return name.endswith("_ms") and found["type"] == "integer" and found["min"] == 0


def duration(limit_ms: int) -> list[str]:
    if limit_ms == 2**63 - 1:
        return []
    days = limit_ms // DAY_MS
    return [f"at most {days} days" if days > 1 else f"at most {limit_ms // HOUR_MS} hours"]


def test_all_fields_are_looked_at() -> None:
    assert len(FIELDS) == sum(len(found.checks) for found in OPERATIONS.values())
    assert len(FIELDS) > 270, f"found only {len(FIELDS)} fields"


@pytest.mark.parametrize(
    ("kind", "row", "check"), FIELDS, ids=[f"{kind.__name__}.{row[0]}" for kind, row, _ in FIELDS]
)
def test_type_and_limits_of_a_field_are_those_declared(
    kind: type[m.Message], row: list[str], check: Check
) -> None:
    name, shown, _, note = row
    found = description_of(check)
    if is_ms(name.strip("`"), found):
        assert (shown, [x for x in duration(found["max"]) if x not in note]) == ("ms", [])
        return
    shown = re.sub(r", \.\.\.\]", "]", shown)  # Rows may be longer.
    expected = type_of(found)
    if check in NAMES:
        expected = expected.replace("text", "name")
    assert shown == expected
    assert [limit for limit in limits_of(found) if limit not in note] == []


def test_limits_of_attributes_are_those_declared() -> None:
    """QueueCreate states the limits. The other messages with attributes refer to it."""
    (note,) = [
        row[3] for kind, row, _ in FIELDS if (kind, row[0]) == (m.QueueCreate, "`attributes`")
    ]
    found = description_of(checks_of(m.QueueCreate)[2])
    assert f"at most {found['length_max']}" in note
    assert f"keys of {found['keys']['characters_max']} characters" in note
    assert f"arrays of {found['values']['of'][0]['length_max']}" in note


# -- section 11: the table of requests


def values() -> dict[str, str]:
    """Returns the value of the Ok that answers each request."""
    table = section(11).partition("| request | value |\n")[2].partition("\n\n")[0]
    found: dict[str, str] = {}
    for names, value in cells_of(table):
        for name in re.findall(r"`(\w+)`", names):
            assert name not in found, name
            found[name] = value
    return found


def test_each_request_that_an_ok_answers_has_its_value() -> None:
    expected = {
        found.kind.__name__
        for found in OPERATIONS.values()
        if found.request and found.request.answered_by in (AnsweredBy.OK, AnsweredBy.DELIVER)
    }
    assert values().keys() == expected
    assert len(expected) == 73, f"found {len(expected)} requests"


def test_value_is_nil_where_the_declaration_says_so() -> None:
    said = {name for name, value in values().items() if value.startswith("nil")}
    declared = {
        found.kind.__name__
        for found in OPERATIONS.values()
        if re.search(r"\bOK(:| with) nil\b", found.kind.__doc__ or "")
    }
    assert said == declared
    assert len(said) == 6


def shape(found: Description) -> Any:
    """Returns the nesting of rows and arrays in a type, without their elements."""
    if found["type"] == "array":
        return ["...", shape(found["of"])]
    return [shape(x) for x in found["columns"]] if found["type"] == "row" else "x"


def shape_of(value: str) -> Any:
    """Returns the nesting in a value of section 11, such as ``[a, [b, c], [[d, e], ...]]``."""
    plain = re.sub(r"\[ids [^\]]*\]", "['...', 'x']", value)
    plain = re.sub(r"(?<![\w'])[a-zA-Z][\w ]*(?=[,\]])", "'x'", plain.replace(", ...]", ", 0]"))
    return arrays(eval(plain, {}))


def arrays(found: Any) -> Any:
    if not isinstance(found, list):
        return found
    if found[-1] == 0:
        return ["...", arrays(found[0])]
    return [arrays(x) for x in found]


def test_values_with_a_declared_form_have_it() -> None:
    found = {
        operation.kind.__name__: description_of(operation.request.ok_value)
        for operation in OPERATIONS.values()
        if operation.request and operation.request.ok_value
    }
    assert len(found) >= 5, f"found only {len(found)} values"
    said = values()
    assert said["GroupNew"].endswith(type_of(found.pop("GroupNew")))
    for name, declared in found.items():
        (written,) = re.findall(r"^`(\[.*\])`", said[name])
        assert shape_of(written) == shape(declared), name


# -- section 11: the keys of rows


def keys_of(row: Any) -> set[str]:
    return set(get_type_hints(row))


def documented(head: str) -> set[str]:
    """Returns the keys in the first cells of the table below *head*."""
    _, mark, rest = section(11).partition(head)
    assert mark, head
    table = re.search(r"\n\| key \| meaning \|\n.*?\n\n", rest, re.DOTALL)
    assert table, head
    return {key for row in cells_of(table[0]) for key in re.findall(r"`(\w+)`", row[0])}


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("**A row of a parked publication**", keys_of(rows.ParkedRow)),
        ("**A job's row.**", keys_of(rows.JobRow)),
        ("**A group's row.**", keys_of(rows.GroupRow)),
        ("`GroupShow` adds:", keys_of(rows.GroupShown) - keys_of(rows.GroupRow)),
        ("**A link's row.**", keys_of(manager_rows.LinkRow)),
        ("A path has:", keys_of(manager_rows.PathRow)),
        ("A map in `inbound` of `LinkList` has:", keys_of(manager_rows.InboundRow)),
        ("**A connection's row.**", keys_of(manager_rows.ConnectionRow)),
    ],
)
def test_keys_of_a_row_are_those_that_clients_know(head: str, expected: set[str]) -> None:
    keys = {key for key in documented(head) if key.islower()}
    assert keys == expected
    assert len(keys) >= 4, f"found only {len(keys)} keys"


def test_keys_of_the_status_are_those_that_clients_know() -> None:
    keys = documented("**Status.** Of the queue manager:") | documented("Of the process:")
    assert keys == keys_of(manager_rows.ManagerStatus)
    assert len(keys) >= 27, f"found only {len(keys)} keys"


@pytest.mark.parametrize(
    ("request_", "row"),
    [
        ("QueueDelete", rows.Removed),
        ("LinkList", manager_rows.LinkListing),
        ("LinkAllow", manager_rows.AllowedRow),
        ("LinkDisallow", manager_rows.Disallowed),
        ("TemplateDelete", rows.TemplateDeleted),
        ("Unsubscribe", rows.Removed),
        ("HistoryRead", manager_rows.HistoryPage),
        ("HistoryShow", manager_rows.HistoryShown),
        ("CursorCommit", manager_rows.CursorRow),
        ("TopicLacks", rows.UnacknowledgedPublication),
        ("TopicLacks", rows.UnacknowledgedRow),
    ],
)
def test_keys_of_a_map_are_in_the_table(request_: str, row: Any) -> None:
    keys = keys_of(row)
    assert keys
    assert keys <= set(re.findall(r"`(\w+)`", values()[request_]))
