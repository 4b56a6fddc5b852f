"""Tests of the attributes of a link, and of the errors for invalid ones."""

from typing import Any

import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.link_attributes import altered, created


@pytest.mark.parametrize(
    "addresses", [["h:1"], ["[::1]:7470", "unix:/run/x.sock"], ["10.0.0.1:65535"], []]
)
def test_link_attributes_in_range_are_kept(addresses: list[str]) -> None:
    row = {"addresses": addresses, "stopped": False}
    assert created("B", {"addresses": addresses}) == row


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "links.B.addresses: give up to 16"),
        ({"addresses": ["h:1"] * 17}, "links.B.addresses: give up to 16"),
        ({"addresses": "h:1"}, "links.B.addresses: give up to 16"),
        ({"addresses": ["h"]}, "links.B.addresses: 'h' is not host:port"),
        ({"addresses": ["h:0"]}, "'h:0' is not host:port"),
        ({"addresses": ["h:65536"]}, "'h:65536' is not host:port"),
        ({"addresses": [":1"]}, "':1' is not host:port"),
        ({"addresses": ["h:٣"]}, "is not host:port"),
        ({"addresses": [7]}, "'7' is not host:port"),
        ({"addresses": ["unix:relative"]}, "is not host:port"),
        ({"addresses": ["h:1"], "stopped": 1}, "links.B.stopped: 1 is neither true nor false"),
        ({"addresses": ["h:1"], "ordered": 1}, "links.B.ordered: 1 is neither true nor false"),
        ({"addresses": ["h:1"], "routes": "*"}, "give at most 100 names of queue managers"),
        ({"addresses": ["h:1"], "routes": ["*", "a/b"]}, "a/b"),
        (
            {"addresses": ["h:1"], "connections": 0},
            "links.B.connections: '0' is not a number from 1",
        ),
        ({"addresses": ["h:1"], "connections": 17}, "'17' is not a number from 1 to 16"),
        ({"addresses": ["h:1"], "connections": True}, "'True' is not a number"),
        ({"adresses": ["h:1"]}, "links.B.addresses: give up to 16"),
        (
            {"addresses": ["h:1"], "stoped": True},
            "links.B.stoped: unknown attribute; did you mean stopped",
        ),
    ],
)
def test_link_attribute_out_of_range_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        created("B", given)
    assert words in caught.value.text
    assert caught.value.code == ErrorCode.VALUE_INVALID


def test_link_needs_a_name() -> None:
    with pytest.raises(RequestError) as caught:
        created("a/b", {"addresses": ["h:1"]})
    assert caught.value.code == ErrorCode.NAME_INVALID


def test_altered_attributes_have_no_defaults() -> None:
    assert altered("B", {"connections": 4}) == {"connections": 4}
    with pytest.raises(RequestError, match=r"\.stopped: unknown attribute; known: addresses, c"):
        altered("B", {"addresses": ["h:1"], "stopped": True})
