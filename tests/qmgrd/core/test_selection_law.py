"""Tests that an index gives the same answers as a check of each message."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.queue.test_selection import browsed, got

GROUPS = (b"g" * 24, b"h" * 24)
CORRELATIONS = ("", "c", "cc", "C", "cé", "c\0", "it's", "\U0001f6eb", "c" * 64)
ORIGINS = ("O", "O1", "P.Q")
TIMESTAMPS = st.sampled_from((1, 2, 2**63 - 1))

Case = tuple[dict[str, Any], list[str]]  # a query of an index, and the equivalent selectors


def equal(name: str, text: str) -> list[str]:
    """Returns selectors for the messages whose *name* is *text*."""
    quoted = "'" + text.replace("'", "''") + "'"
    return [
        f"{name} = {quoted}",
        f"NOT {name} != {quoted}",
        f"{name} IN ('x', {quoted})",
        f"{quoted} IN ('x', {name})",
        f"{name} BETWEEN {quoted} AND {quoted}",
        f"NOT ({name} < {quoted} OR {name} > {quoted})",
        f"{name} >= {quoted} AND NOT {name} NOT BETWEEN {quoted} AND {quoted}",
    ]


def of_correlation(text: str) -> Case:
    names = ("correlation_id", "JMSCorrelationID")
    return {"correlation_id": text.encode()}, [x for name in names for x in equal(name, text)]


def of_uid(origin: str, timestamp: int) -> Case:
    uid = records.Uid(origin, timestamp)
    wheres = equal("uid", str(uid)) + equal("JMSMessageID", str(uid))
    wheres.append(
        f"origin = '{origin}' AND timestamp % {2**63 - 1} = {timestamp % (2**63 - 1)} "
        f"AND timestamp IN ({timestamp})"
    )
    return {"uid": records.encode_uid(uid)}, wheres


def of_group(group_id: bytes) -> Case:
    return {"group_id": group_id}, equal("group_id", group_id.hex())


cases = st.one_of(
    st.sampled_from(CORRELATIONS[1:]).map(of_correlation),
    st.builds(of_uid, st.sampled_from(ORIGINS), TIMESTAMPS),
    st.sampled_from(GROUPS).map(of_group),
)
puts = st.fixed_dictionaries(
    {
        "correlation_id": st.sampled_from(CORRELATIONS).map(str.encode),
        "priority": st.sampled_from((3, 4, 9)),
    },
    optional={
        "uid": st.tuples(st.sampled_from(ORIGINS), TIMESTAMPS),
        "group": st.tuples(st.sampled_from(GROUPS), st.integers(1, 6), st.just(False)),
        "delay_ms": st.just(60_000),
        "expiry_ms": st.just(50),
        "envelope": st.just({"headers": {"correlation_id": "c", "uid": "O.1", "group_id": "x"}}),
    },
)


def filled(fields: list[dict[str, Any]], held: int) -> Client:
    """Returns a client of a queue with available, leased and expired messages."""
    app = Manager().connect()
    app.ask(m.QueueCreate, "Q")
    for number, each in enumerate(fields):
        app.put_records("Q", record(b"%d" % number, **each))
    if held:
        app.get("Q", held)
    app.manager.advance(60)
    return app


@given(st.lists(puts, max_size=12), st.integers(0, 3), cases, st.data())
def test_index_and_selector_answer_alike(
    fields: list[dict[str, Any]], held: int, case: Case, data: st.DataObject
) -> None:
    by_index, wheres = case
    app = filled(fields, held)
    expected = sorted(browsed(app, **by_index))
    for where in wheres:
        assert sorted(browsed(app, where=where)) == expected, where
    where = data.draw(st.sampled_from(wheres))
    other = filled(fields, held)
    sought, scanned = got(app, count=20, **by_index), got(other, count=20, where=where)
    assert sorted(x.body for x in sought) == sorted(x.body for x in scanned), where


@given(st.lists(puts, max_size=12), cases, st.data())
def test_consumers_are_sent_alike_by_index_and_selector(
    fields: list[dict[str, Any]], case: Case, data: st.DataObject
) -> None:
    by_index, wheres = case
    where = data.draw(st.sampled_from(wheres))
    bodies = []
    for way in (by_index, {"where": where}):
        if "uid" in way:  # A consumer cannot use an index to select one message.
            way = {"where": wheres[0]}
        app = Manager().connect()
        app.ask(m.QueueCreate, "Q")
        app.ask(m.Consume, *m.Consume(0, "Q", 50, 1 << 20, 0, **way)[1:])
        for number, each in enumerate(fields):
            app.put_records("Q", record(b"%d" % number, **each))
        app.manager.rest()
        bodies.append(sorted(x.body for x in app.delivered()))
    assert bodies[0] == bodies[1], where
