"""Tests of the addresses of queue managers."""

import pytest

from qmgr_client.address import Address, parse
from qmgr_client.errors import AddressInvalid


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7470", Address("127.0.0.1", 7470)),
        ("[::1]:7470", Address("::1", 7470)),
        ("broker.example:1", Address("broker.example", 1)),
        ("tls:nyc.example.org:7471", Address("nyc.example.org", 7471, is_tls=True)),
        ("tls:[::1]:7471", Address("::1", 7471, is_tls=True)),
        ("unix:/run/qmgrd.sock", Address(path="/run/qmgrd.sock")),
        ("app@[::1]:7470", Address("::1", 7470, user="app")),
        ("tls:app@nyc:7471", Address("nyc", 7471, is_tls=True, user="app")),
    ],
)
def test_address_is_taken_apart_and_put_together(text: str, address: Address) -> None:
    assert parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("tls://nyc.example.org:7471", "tls:nyc.example.org:7471"),
        ("tls://app@nyc.example.org:7471/", "tls:app@nyc.example.org:7471"),
        ("tcp://app@127.0.0.1:7470", "app@127.0.0.1:7470"),
        ("tcp:127.0.0.1:7470", "127.0.0.1:7470"),
        ("unix:///run/qmgrd.sock", "unix:///run/qmgrd.sock"),
    ],
)
def test_url_is_an_address(url: str, text: str) -> None:
    assert str(parse(url)) == text


@pytest.mark.parametrize(
    "text",
    ["app:secret@nyc:1", "tls:app:secret@nyc:1", "tls://app:secret@nyc:1", "x://:secret@nyc:1"],
)
def test_password_in_an_address_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(AddressInvalid, match="must not contain a password") as caught:
        parse(text)
    assert "secret" not in f"{caught.value} {caught.value.address} {caught.value.why}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", '"" is not host:port, tls:host:port or unix:/path'),
        ("localhost", '"localhost" is not host:port'),
        ("::1:7470", "is not host:port"),
        ("unix:", "is not host:port"),
        ("tls:", "is not host:port"),
        ("tls:unix:/a", "is not host:port"),
        ("host:0", "port 0 of .* is out of range"),
        ("host:65536", "port 65536 of .* is out of range"),
        ("host:http", "is not host:port"),
        ("@host:1", "is not host:port"),
        ("http://app@host:1", "is not host:port"),
    ],
)
def test_malformed_address_is_refused(text: str, why: str) -> None:
    with pytest.raises(AddressInvalid, match=why) as caught:
        parse(text)
    assert caught.value.address == text


def test_address_that_is_not_a_str_is_refused() -> None:
    with pytest.raises(AddressInvalid, match="cannot connect to 7470: an address must be a str"):
        parse(7470)  # type: ignore[arg-type]
