from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.message import Outgoing
from qmgr_client.message import encode as encode_outgoing
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.record import Fields, Uid
from qmgrd.core.queue.facts import BUILT_IN, MessageFacts
from qmgrd.core.selector.selector import Value, compile_selector
from tests.qmgr_protocol.strategies import RECORD_FIELDS

HEADERS: dict[str, Any] = {
    "carrier": "UA",
    "stops": 2,
    "delay": 1.5,
    "late": False,
    "priority": "high",
    "": "empty",
    "raw": b"UA",
    "list": [1],
    "map": {"a": 1},
    "none": None,
    "nan": float("nan"),
    "dead": "header",
    'a"b': 1,
    "content-type": "of the producer",
}
UID = Uid("NYC", 1_700_000_000_123_456)


def record(**fields: Any) -> bytes:
    return records.encode(Fields(**{"body": b"12345", **fields}))


def facts_of(record: bytes, extra: Mapping[str, Any] | None = None) -> MessageFacts:
    return MessageFacts(record, 7, 2, 1, 1_700_000_000_999_999, extra or {})


FULL = record(
    priority=3,
    correlation_id="größe".encode(),
    uid=UID,
    group=(bytes(range(24)), 5, True),
    envelope={"headers": HEADERS, "reply_to": "ANSWERS", "content_type": "text/plain"},
)
BARE = record()
OF_FULL: dict[str, Value | None] = {
    "priority": 7,
    "uid": "NYC.1700000000123456",
    "origin": "NYC",
    "timestamp": 1_700_000_000_123_456,
    "correlation_id": "größe",
    "group_id": bytes(range(24)).hex(),
    "group_number": 5,
    "group_last": True,
    "size": 5,
    "delivered": 2,
    "failed": 1,
    "redelivered": True,
    "put_us": 1_700_000_000_999_999,
    "content_type": "text/plain",
    "reply_to": "ANSWERS",
    "JMSPriority": 7,
    "JMSMessageID": "NYC.1700000000123456",
    "JMSTimestamp": 1_700_000_000_123,
    "JMSCorrelationID": "größe",
    "JMSXDeliveryCount": 3,
    "JMSXGroupID": bytes(range(24)).hex(),
    "JMSXGroupSeq": 5,
    "JMSRedelivered": True,
}
BESIDE = {  # These values are stored outside the record.
    "priority": 7,
    "delivered": 2,
    "failed": 1,
    "redelivered": True,
    "put_us": 1_700_000_000_999_999,
    "JMSPriority": 7,
    "JMSXDeliveryCount": 3,
    "JMSRedelivered": True,
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_fact_has_its_value(name: str) -> None:
    found = facts_of(FULL).value_of(name)
    assert (found, type(found)) == (OF_FULL[name], type(OF_FULL[name]))


@pytest.mark.parametrize("name", BUILT_IN)
def test_missing_property_is_null(name: str) -> None:
    assert facts_of(BARE).value_of(name) == {**BESIDE, "size": 5}.get(name)


def test_each_built_in_fact_is_known() -> None:
    assert set(BUILT_IN) == set(OF_FULL)


def test_first_delivery_is_not_a_redelivery() -> None:
    facts = MessageFacts(FULL, 4, 0, 0, 0)
    assert facts.value_of("redelivered") is facts.value_of("JMSRedelivered") is False
    assert facts.value_of("JMSXDeliveryCount") == 1


def test_binary_correlation_id_is_shown_as_digits() -> None:
    facts = facts_of(record(correlation_id=b"\xff\x00a"))
    assert facts.value_of("correlation_id") == facts.value_of("JMSCorrelationID") == "ff0061"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("carrier", "UA"),
        ("stops", 2),
        ("delay", 1.5),
        ("late", False),
        ("nothing", None),
        ("raw", None),
        ("list", None),
        ("map", None),
        ("none", None),
        ("nan", None),
        ("Carrier", None),
        ("content-type", "of the producer"),
        ("", "empty"),
    ],
)
def test_any_other_name_is_a_header(name: str, value: Value | None) -> None:
    found = facts_of(FULL).value_of(name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ('"priority"', "high"),
        ('"carrier"', "UA"),
        ('"uid"', None),
        ('"dead"', "header"),
        ('"a"b"', 1),
        ('"JMSPriority"', None),
        ('"reply_to"', None),
    ],
)
def test_quoted_name_is_always_a_header(name: str, value: Value | None) -> None:
    assert facts_of(FULL, {"dead": "letter", "uid": "x"}).value_of(name) == value


def test_facts_of_a_dead_letter_precede_headers() -> None:
    facts = facts_of(FULL, {"dead": "letter", "priority": 1, "stops": [2], "reason": "expired"})
    assert facts.value_of("dead") == "letter"
    assert facts.value_of("priority") == 7
    assert facts.value_of("stops") is None
    assert facts.value_of("reason") == "expired"
    assert facts.value_of("carrier") == "UA"


def test_headers_encoded_by_the_client_are_found() -> None:
    outgoing = Outgoing(
        b"body", headers={"carrier": "UA"}, reply_to="ANSWERS", content_type="text/plain"
    )
    facts = facts_of(encode_outgoing(outgoing))
    selector = compile_selector(
        "carrier = 'UA' AND reply_to = 'ANSWERS' AND content_type LIKE 'text/%' AND size = 4"
    )
    assert selector.matches(facts.value_of)


def test_envelope_is_unpacked_once_and_only_if_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[bytes] = []

    def counted(data: bytes) -> Any:
        unpacked.append(data)
        return unpack(data)

    monkeypatch.setattr("qmgrd.core.queue.facts.unpack", counted)
    facts = facts_of(FULL, {"reason": "expired"})
    for name in BUILT_IN:
        if name not in ("content_type", "reply_to"):
            facts.value_of(name)
    facts.value_of("reason")
    assert unpacked == []
    for name in ("carrier", "gone", '"stops"', "reply_to"):
        facts.value_of(name)
    assert len(unpacked) == 1


ROTTEN = [
    b"\xc1",
    b"\x81\xa1a",
    pack([1]),
    pack("x"),
    pack({"headers": [1]}),
    pack({"headers": "carrier"}),
    pack({b"headers": {"carrier": "UA"}}),
    b"\x82\xa1a\x01\xa1a\x02",
    b"\x91" * 2_000,
    pack({"headers": {b"carrier": "UA"}, "reply_to": 5, "content_type": None}),
]


@pytest.mark.parametrize("envelope", ROTTEN, ids=lambda envelope: envelope[:8].hex())
def test_damaged_envelope_has_no_headers(envelope: bytes) -> None:
    head = records.HEAD.pack(0, 0, 1, 4, 0, 0, 0, 0, len(envelope), 3)
    facts = facts_of(head + envelope + b"abc")
    for name in ("carrier", '"carrier"', "headers", "reply_to", "content_type"):
        assert facts.value_of(name) is None
    assert facts.value_of("size") == 3


@pytest.mark.parametrize("damaged", [b"", FULL[:23], FULL[:-1], FULL + b"x", b"\xff" * 100])
def test_invalid_record_keeps_the_facts_stored_outside_it(damaged: bytes) -> None:
    facts = facts_of(damaged)
    assert {name: facts.value_of(name) for name in BUILT_IN} == {
        name: BESIDE.get(name) for name in BUILT_IN
    }
    assert facts.value_of("carrier") is None


@given(RECORD_FIELDS, st.data())
def test_no_record_raises(fields: Fields, data: st.DataObject) -> None:
    whole = bytearray(records.encode(fields))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    facts = facts_of(bytes(whole))
    for name in (*BUILT_IN, "a", '"a"', ""):
        assert type(facts.value_of(name)) in (bool, int, float, str, type(None))


@given(RECORD_FIELDS)
def test_facts_are_the_fields_of_the_record(fields: Fields) -> None:
    facts = facts_of(records.encode(fields))
    assert facts.value_of("uid") == (None if fields.uid is None else str(fields.uid))
    assert facts.value_of("size") == len(fields.body)
    group = (None, None, None) if fields.group is None else fields.group
    assert facts.value_of("group_id") == (group[0].hex() if group[0] is not None else None)
    assert (facts.value_of("group_number"), facts.value_of("group_last")) == group[1:]
    headers = fields.envelope.get("headers")
    for name in headers if isinstance(headers, dict) else ():
        assert isinstance(headers, dict)
        found = facts.value_of(f'"{name}"')
        assert found is None or found == headers[name]


def test_headers_are_found_after_group_and_delay() -> None:
    whole = record(group=(b"g" * 24, 1, False), delay_ms=5, envelope={"headers": {"carrier": "UA"}})
    assert facts_of(whole).value_of("carrier") == "UA"
