"""Tests that PROTOCOL.md agrees with the code: its tables, numbers and examples."""

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import codec
from qmgr_protocol import messages as m
from qmgr_protocol.connection import FRAME_MAX_LEAST_BYTES
from qmgr_protocol.errors import ErrorClass, ErrorCode
from qmgr_protocol.frame import FRAME_MAX_BYTES_BEFORE_HELLO
from qmgr_protocol.limits import QUEUE_ATTRIBUTES as ATTRS
from qmgr_protocol.limits import SUBSCRIPTION_ATTRIBUTES, TOPIC_ATTRIBUTES, Attribute
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import EACH, GRANTED_KINDS, Kind, Right
from qmgr_protocol.record import encode_uid
from qmgr_protocol.states import Side, State
from qmgr_protocol.topic import filter_of, fits, levels_of
from qmgr_protocol.transitions import FROM_DIALLER, FROM_LISTENER, QUEUE_MANAGER_ONLY, TRANSITIONS
from qmgrd.core.access.role import BUILT_IN
from qmgrd.core.catalogue import topics
from qmgrd.core.layout.bounds import Bounds
from tests.qmgr_protocol.talk import dissected, talk
from tests.qmgrd.core.harness import Client, Manager, record

DOCUMENT = Path(__file__).parents[2] / "protocol" / "PROTOCOL.md"
SPAN = re.compile(r"[0-9][0-9,]*(?:\^[0-9]+)?")
MADE = {"record": dissected, "talk": talk}


def text() -> str:
    return DOCUMENT.read_text()


def section(number: int) -> str:
    return text().partition(f"\n## {number}. ")[2].partition("\n## ")[0]


def rows(part: str) -> Iterator[list[str]]:
    """Yields the cells of each row of all tables, except the heads."""
    for line in part.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


MESSAGES = re.split(r"\n#### ", section(10))[1:]
HEADINGS = [re.match(r"(\d+) `(\w+)` \((.*)\)", part) for part in MESSAGES]


def test_each_message_has_its_part() -> None:
    found = {int(heading[1]): heading[2] for heading in HEADINGS if heading}
    assert found == {number: found.kind.__name__ for number, found in OPERATIONS.items()}


@pytest.mark.parametrize("part", MESSAGES, ids=lambda part: part.split("`")[1])
def test_message_is_described_as_it_is(part: str) -> None:
    heading = re.match(r"\d+ `(\w+)` \((\w+)", part)
    assert heading
    kind, sender = getattr(m, heading[1]), heading[2]
    table = [row for row in rows(part) if row[0].startswith("`")]
    assert [row[0].strip("`") for row in table] == list(kind._fields)
    for name, _, default, _ in table:
        assert _default(default) == kind._field_defaults.get(name.strip("`"), _default(""))
    senders = {side.value for _, side, sent in TRANSITIONS if sent is kind}
    assert senders == ({"dialler", "listener"} if sender == "either" else {sender})


def _default(cell: str) -> Any:
    plain = {"`nil`": None, "`false`": False, "`true`": True, "": "(no default)"}
    return plain[cell] if cell in plain else ast.literal_eval(cell.strip("`"))


def test_states_are_those_of_the_code() -> None:
    managers = {kind for side, kind in QUEUE_MANAGER_ONLY if side is Side.DIALLER}
    words = {"requests": FROM_DIALLER - {m.Ping, m.Pong, m.Piece} - managers}
    found = set()
    for state, cell, sender, after in rows(section(3)):
        if state not in State.__members__ or not after:
            continue
        sides = list(Side) if sender == "either" else [Side(sender.split()[0])]
        kinds = {getattr(m, name) for name in re.findall(r"`(\w+)`", cell)}
        kinds |= words["requests"] if cell.startswith("requests") else set()
        for side in sides:
            found |= {(State[state], side, kind, State[after]) for kind in kinds}
    assert found == {(*key, after) for key, after in TRANSITIONS.items()}


def test_answers_are_those_of_the_code() -> None:
    assert len(FROM_LISTENER) >= 9, f"found only {len(FROM_LISTENER)} messages"
    cells = " ".join(cell for row in rows(section(3)) for cell in row)
    assert {kind.__name__ for kind in FROM_LISTENER} <= set(re.findall(r"\w+", cells))


def errors() -> str:
    """Returns the table of error codes."""
    lines = ["| code | name | class | MQ | |", "|---|---|---|---|---|"]
    for code in ErrorCode:
        cells = str(code.value), f"`{code.name}`", code.error_class.word, code.mq, code.means
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def rights() -> str:
    """Returns the table of the rights that requests need."""
    lines = ["| request | right | on | |", "|---|---|---|---|"]
    for kind, found in sorted((x.kind.__name__, x) for x in OPERATIONS.values()):
        for need in found.request.needs if found.request is not None else ():
            if need.right is Right.CONNECT:
                continue
            named = f"{need.kind.value} `{need.field}`"
            if need.kind is Kind.MANAGER:
                named = "the queue manager"
            elif need.kind is Kind.PEER:
                named = "peer of the name in the hello"
            elif need.field == EACH:
                named = f"each {need.kind.value}: others are not listed"
            note = f"if `{need.when}` is true" if need.when else ""
            note = "empty: all" if need.or_all else note
            note = "an alias counts as its queue" if need.through else note
            cells = f"`{kind}`", f"`{need.right.value}`", named, note
            lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


TABLES = {"errors": errors, "rights": rights}


@pytest.mark.parametrize("name", TABLES)
def test_table_is_what_the_code_declares(name: str, request: pytest.FixtureRequest) -> None:
    before, mark, rest = text().partition(f"<!-- made by tests/qmgr_protocol: {name} -->\n")
    table, end, after = rest.partition(f"<!-- /{name} -->\n")
    assert mark
    assert end
    made = TABLES[name]()
    if request.config.getoption("rewrite", default=False):
        table = made
        DOCUMENT.write_text(before + mark + table + end + after)
    assert table == made


def test_grants_are_those_of_the_code() -> None:
    """The table of section 17 has each kind of object with the rights that can be granted."""
    kinds, _, roles = section(17).partition("| role | rights |")
    found = {row[0]: re.findall(r"`(\w+)`", row[1]) for row in rows(kinds)}
    for kind, possible in GRANTED_KINDS.items():
        assert found[f"`{kind}`"] == [right.value for right in possible], kind
    assert {f"`{name}`" for name in BUILT_IN} <= {row[0] for row in rows(roles)}


def test_classes_have_the_words_of_the_catalogue() -> None:
    bold = set(re.findall(r"\*\*(\w+)\*\*", section(12)))
    assert bold == {error_class.word for error_class in ErrorClass}


def test_each_code_that_is_named_exists() -> None:
    capitals = set(re.findall(r"`([A-Z]+_[A-Z_]+)`", text()))
    assert len(capitals) >= 100, f"found only {len(capitals)} codes"
    assert capitals <= set(ErrorCode.__members__)


@pytest.mark.parametrize(
    "number",
    [
        FRAME_MAX_BYTES_BEFORE_HELLO,
        FRAME_MAX_LEAST_BYTES,
        codec.LENGTH_MAX,
        m.GET_MAX_MESSAGES,
        codec.CONTAINER_BYTES,
    ],
)
def test_limit_is_named(number: int) -> None:
    assert re.search(rf"\b{number:,}\b", text())


def test_the_budget_of_a_frame_is_named() -> None:
    assert f"{codec.BUILT_MAX_BYTES // 2**20} MiB" in section(2)


@pytest.mark.parametrize("name", MADE)
def test_example_is_what_the_code_makes(name: str, request: pytest.FixtureRequest) -> None:
    mark = f"<!-- made by tests/qmgr_protocol: {name} -->\n```\n"
    before, found, rest = text().partition(mark)
    assert found
    made = MADE[name]()
    if request.config.getoption("rewrite", default=False):
        rest = "```" + rest.partition("```")[2]
        DOCUMENT.write_text(before + mark + made + rest)
    assert text().partition(mark)[2].partition("```")[0] == made


def test_attributes_are_those_of_the_code() -> None:
    found = dict(attributes_under("attribute"))
    assert list(found) == list(ATTRS)
    held = Bounds(depth_max=0, bytes_max=0, lease_ms=0, leases_max=0)
    for name, (values, default) in found.items():
        known = ATTRS[name]
        if known.is_number:
            assert [power(end) for end in SPAN.findall(values)] == [known.low, known.high]
        elif known.choices:
            assert re.findall(r"`([a-z-]+)`", values) == list(known.choices)
        if default != "the queue manager's":
            assert default.strip('`"').replace(",", "") == as_said(getattr(held, name))


def attributes_under(head: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each attribute in the table *head* of section 11, with its values and default."""
    table = section(11).partition(f"| {head} |")[2].partition("\n\n")[0]
    for row in rows(table.partition("\n")[2]):
        yield row[0].strip("`"), row[1:3]


@pytest.mark.parametrize(
    ("head", "known", "defaults"),
    [
        ("attribute of a topic", TOPIC_ATTRIBUTES, topics.DEFAULTS),
        (
            "attribute of a subscription",
            {name: x for name, x in SUBSCRIPTION_ATTRIBUTES.items() if x != ATTRS.get(name)},
            {"overflow": "discard-newest", "redelivery_limit": -1, "unused_expiry_ms": 0},
        ),
    ],
)
def test_attributes_of_topics_and_subscriptions_are_those_of_the_code(
    head: str, known: dict[str, Attribute], defaults: dict[str, Any]
) -> None:
    found = dict(attributes_under(head))
    assert list(found) == list(known)
    for name, (values, default) in found.items():
        if known[name].is_number:
            low, _, high = values.replace(",", "").partition(" to ")
            assert (int(low), int(high)) == (known[name].low, known[name].high)
        elif known[name].choices:
            assert re.findall(r"`([a-z-]+)`", values) == list(known[name].choices)
        assert default.strip("`").replace(",", "") == as_said(defaults[name])


def test_what_subscriptions_have_not_of_the_attributes_of_queues_is_named() -> None:
    text_ = section(11).partition("**Attributes of a subscription**")[2].partition(".")[0]
    assert set(re.findall(r"`(\w+)`", text_)) == set(ATTRS) - set(SUBSCRIPTION_ATTRIBUTES)


@pytest.mark.parametrize("filter_", ["flights/JFK/UA", "flights/+/UA", "flights/#", "+", "#"])
def test_examples_of_filters_are_what_the_code_makes_of_them(filter_: str) -> None:
    (row,) = [row for row in rows(section(5)) if row[0] == f"`{filter_}`"]
    found = [re.findall(r"`([^`]+)`", cell) for cell in row[1:]]
    levels = filter_of(filter_)
    assert [[fits(levels, levels_of(topic)) for topic in cell] for cell in found] == [
        [True] * len(found[0]),
        [False] * len(found[1]),
    ]


def published(client: Client) -> list[dict[str, Any]]:
    """Returns the answers about a publication that is parked for one subscriber."""
    client.ask(m.TopicSet, "a", {"redelivery_limit": 0})
    answers = [
        client.ask(m.Subscribe, "a/#", ":s"),
        client.ask(m.Subscribe, "a/#", ":s@NYC"),
        client.ask(m.TopicShow, "a/b"),
    ]
    client.put("/a/b", b"x")
    (found,) = client.get(":s")
    client.release(found)
    parked = client.ask(m.RepublishList)
    lacks = client.ask(m.TopicLacks, encode_uid(found.uid))
    subscriptions, topics_ = client.ask(m.SubscriptionList), client.ask(m.TopicList)
    return [
        *answers,
        parked,
        *parked["parked"],
        lacks,
        *lacks["subscriptions"],
        subscriptions,
        topics_,
        *topics_["topics"],
        client.ask(m.SubscriptionHealthy, ":s"),
        client.ask(m.Republish),
        client.ask(m.QueueShow, ":s"),
        client.ask(m.QueueShow, "SYSTEM.PUBLICATIONS"),
        client.ask(m.Unsubscribe, ":s"),
    ]


def groups(client: Client, group_id: bytes) -> list[dict[str, Any]]:
    """Returns the answers about a group that lacks number 2."""
    members = [record(b"x", group=(group_id, n, n == 3), expiry_ms=9_000) for n in (1, 3)]
    client.ask(m.QueueAlter, "Q", {"depth_max": 9})
    client.put_records("Q", *members)
    listed = client.ask(m.GroupList, "Q")
    shown = client.ask(m.GroupShow, "Q", group_id)
    altered = client.ask(m.GroupAlter, "Q", group_id, "pause")
    return [listed, *listed["groups"], shown, *shown["members"], altered]


def as_said(value: object) -> str:
    return str(value).lower().removesuffix(".0")


def power(text: str) -> int:
    base, _, exponent = text.replace(",", "").partition("^")
    return int(math.pow(int(base), int(exponent or 1)))


def test_keys_of_each_reply_are_described() -> None:
    """Section 11 contains each key in the answers of the real queue manager."""
    described = set(re.findall(r"\w+", section(11)))
    client = Manager().connect()
    group_id = b"g" * 24
    client.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:7470"], "stopped": True})
    answers = [
        client.ask(m.QueueCreate, "Q"),
        client.ask(m.QueueCreate, "F@NYC"),
        client.ask(m.QueueAlter, "Q", {"depth_max": 1}),
        client.ask(m.QueueShow, "Q"),
        client.ask(m.QueueShow, "@NYC"),
        client.ask(m.QueueList),
        client.ask(m.QueueCreate, "S", {"alias_of": "Q"}),
        client.ask(m.TemplateSet, "Q*", {"expiry_max_ms": 1}),
        client.ask(m.QueueShow, "Q"),
        client.ask(m.TemplateList),
        client.ask(m.TemplateDelete, "Q*"),
        client.ask(m.Browse, "Q"),
        *groups(client, group_id),
        client.ask(m.QueuePurge, "Q"),
        client.ask(m.QueueDelete, "Q"),
        client.ask(m.LinkShow, "NYC"),
        client.ask(m.LinkAlter, "NYC", {"addresses": ["nyc2:7470"]}),
        client.ask(m.LinkAllow, "FRA"),
        client.ask(m.LinkList),
        *client.ask(m.LinkList)["allowed"],
        client.ask(m.LinkDisallow, "FRA"),
        *published(client),
        client.ask(m.Status),
        client.ask(m.ConnectionList),
    ]
    keys = {key for answer in answers for key in answer}
    assert len(keys) >= 170, f"found only {len(keys)} keys"
    for answer in answers:
        assert set(answer) <= described, set(answer) - described
