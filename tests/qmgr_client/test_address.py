"""Tests of the addresses of queue managers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.address import ADDRESSES_MAX, Address, joined, parse, parse_list, split
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


# -- lists

HOSTS = st.from_regex(r"[a-z][a-z0-9.-]{0,20}|[0-9a-f:]{1,8}:", fullmatch=True)
PATHS = st.from_regex(r"/[a-z,]{0,20}[a-z]", fullmatch=True)
PORTS = st.integers(1, 65_535)


@st.composite
def lists(draw: st.DrawFn) -> list[Address]:
    """Returns addresses of one queue manager, all of which have the user or only the first."""
    is_tls, user = draw(st.booleans()), draw(st.sampled_from(["", "app"]))
    places = draw(
        st.lists(st.tuples(HOSTS, PORTS), min_size=1, max_size=ADDRESSES_MAX, unique=True)
    )
    later = draw(st.sampled_from(["", user]))
    users = [user] + [later] * (len(places) - 1)
    return [Address(*place, "", is_tls, user) for place, user in zip(places, users, strict=True)]


@given(lists(), st.sampled_from([",", ", ", " ,"]))
def test_list_is_taken_apart_and_put_together(addresses: list[Address], comma: str) -> None:
    text = joined(addresses)
    assert joined(parse_list(text)) == text
    assert parse_list(comma.join(map(str, addresses))) == tuple(addresses)


@given(PATHS, st.lists(HOSTS, max_size=3))
def test_comma_may_belong_to_the_path_of_a_socket(path: str, hosts: list[str]) -> None:
    address = Address(path=path)
    assert parse_list(str(address)) == (address,)
    found = [address, *(Address(host, n) for n, host in enumerate(hosts, 1))]
    assert parse_list(joined(found)) == tuple(found)


@given(st.text(alphabet="ab:1,/@[] tlsunix", max_size=40))
def test_list_is_read_as_its_parts_or_refused(text: str) -> None:
    try:
        found = parse_list(text)
    except AddressInvalid:
        return
    assert list(found) == [parse(part) for part in split(text)]
    assert len(set(found)) == len(found) <= ADDRESSES_MAX
    assert len({address.is_tls for address in found}) == 1
    assert {address.user for address in found} <= {"", found[0].user}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a:1,b:2,a:1", "connect to a:1: it occurs twice in the list: remove one"),
        ("app@a:1,a:1", "connect to a:1: it occurs twice in the list"),
        ("tls:a:1,b:2", "connect to b:2: some addresses use TLS and others do not"),
        ("tls:a:1,unix:/b", "connect to unix:/b: some addresses use TLS"),
        ("app@a:1,ops@b:2", "names another user than the first address"),
        ("a:1,app@b:2", "names another user than the first address"),
        ("a:1,b:0", 'port 0 of "b:0" is out of range'),
        ("a:1,,b:1", '"a:1," is not host:port'),
        ("a:1,", '"a:1," is not host:port'),
        (",".join(f"h:{n}" for n in range(1, 18)), "17 addresses exceed the limit of 16"),
    ],
)
def test_invalid_list_is_refused(text: str, why: str) -> None:
    with pytest.raises(AddressInvalid, match=why):
        parse_list(text)


@pytest.mark.parametrize(
    "text", ["app:sec,ret@nyc:1", "app:12,ret@nyc:1", "a:1,app:secret@b:1", "app:12,a:secret@b:1"]
)
def test_password_in_a_list_is_not_shown(text: str) -> None:
    with pytest.raises(AddressInvalid) as caught:
        parse_list(text)
    shown = f"{caught.value} {caught.value.address} {caught.value.why}"
    assert "ret@" not in shown
    assert "app" not in shown
