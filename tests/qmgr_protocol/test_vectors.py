"""Tests of the golden vectors in protocol/vectors/. Use --rewrite after an intended change."""

import json
from pathlib import Path
from typing import Any

import pytest

from qmgr_protocol import layout, record
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection, refusal
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.frame import FrameDecoder, encode
from qmgr_protocol.record import Fields, Uid
from qmgr_protocol.states import Side
from tests.qmgr_protocol import golden


def vectors(name: str) -> list[Any]:
    path = golden.VECTORS / name
    found: list[Any] = json.loads(path.read_text()) if path.is_file() else []
    return [pytest.param(vector, id=vector["name"]) for vector in found]


def read(value: Any) -> Any:
    """Returns the value of a vector's JSON. This is the inverse of :func:`golden.shown`."""
    if isinstance(value, dict):
        if set(value) == {"hex"}:
            return bytes.fromhex(value["hex"])
        if set(value) == {"integer"}:
            return int(value["integer"])
        return {key: read(item) for key, item in value.items()}
    return [read(item) for item in value] if isinstance(value, list) else value


def message_of(described: dict[str, Any]) -> Any:
    return getattr(m, described["message"])(**read(described["fields"]))


def parsed(data: bytes) -> Any:
    decoder = FrameDecoder(limit_bytes=8 * 1024 * 1024)
    decoder.feed(data)
    ((array, size_bytes),) = decoder.drain()
    assert size_bytes == len(data)
    return layout.parse(array)


@pytest.mark.parametrize("name", golden.files())
def test_file_holds_what_the_code_makes(name: str, request: pytest.FixtureRequest) -> None:
    path: Path = golden.VECTORS / name
    text = golden.text_of(golden.files()[name])
    if request.config.getoption("rewrite", default=False):
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize("vector", vectors("messages.json"))
def test_message_reads_and_writes_as_ever(vector: dict[str, Any]) -> None:
    data, message = bytes.fromhex(vector["hex"]), message_of(vector)
    assert parsed(data) == message
    assert encode(layout.to_array(message)) == data


def test_each_message_has_a_vector() -> None:
    assert {type(message) for message in golden.MESSAGES.values()} == set(layout.NUMBERS)


@pytest.mark.parametrize("vector", vectors("records.json"))
def test_record_reads_and_writes_as_ever(vector: dict[str, Any]) -> None:
    data, given = bytes.fromhex(vector["hex"]), read(vector["fields"])
    if given["uid"] is not None:
        given["uid"] = Uid(**given["uid"])
    if given["group"] is not None:
        given["group"] = tuple(given["group"])
    fields = Fields(**given)
    assert record.decode(data) == fields
    assert record.encode(fields) == data


@pytest.mark.parametrize("vector", vectors("newer.json"))
def test_newer_peer_is_understood_or_refused_without_a_break(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if "reads_as" in vector:
        assert parsed(data) == message_of(vector["reads_as"])
        return
    connection = opened("client")
    ((message, _),) = connection.receive(data + encode([4, 5]), 0)[:1]
    assert isinstance(message, m.OperationUnknown)
    answer = refusal(message)
    assert (answer.code if answer else None) == (
        ErrorCode[vector["answered"]] if vector["answered"] else None
    )
    assert connection.error is None


def opened(role: str) -> Connection:
    """Returns the listener's end of an open connection."""
    connection = Connection(Side.LISTENER)
    hello = m.Hello(m.MAGIC, 1, 1, role, "QM2", [], golden.STORE_ID)
    connection.receive(encode(layout.to_array(hello)), 0)
    connection.send(golden.MESSAGES["Welcome"])
    return connection


@pytest.mark.parametrize("vector", vectors("refused.json"))
def test_refused_with_its_code(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    assert ErrorCode[vector["code_name"]] == vector["code"]
    if vector["what"] == "record":
        with pytest.raises(RequestError) as caught:
            record.decode(data)
        assert caught.value.code == vector["code"]
        return
    connection = opened("client") if vector["what"] == "frame" else Connection(Side.LISTENER)
    assert connection.receive(data, 0) == []
    assert connection.error is not None
    assert connection.error.code == vector["code"]
    assert connection.buffered_bytes == 0
