"""Tests that a link can send over connections that its peer has dialled (G10)."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import Client
from tests.qmgrd.core.lines import Lines

FETCH = m.LinkFetch(2, 0, 8 << 20, 4 << 20, 100, 1 << 20)


class Home(Far):
    """FAR, which dials, and then fetches the messages of the link FAR."""

    def hear(self, *said: Any) -> list[Any]:
        return self.client.say(*said)

    def fetch(self, wanted: m.LinkFetch = FETCH, commit_id: int = 0, **told: Any) -> m.LinkOpen:
        ok, opening = self.hear(wanted)
        assert (type(ok), ok.request_id) == (m.Ok, 2)
        assert type(opening) is m.LinkOpen
        return opening

    def opened(self, commit_id: int = 0, uid: bytes | None = None) -> list[Any]:
        return self.hear(m.Ok(1, [1, commit_id, [], uid, 4096, 1, 0, b""]))


@pytest.fixture
def home(app: Client) -> Home:
    app.ask(m.LinkCreate, "FAR", {"addresses": []})
    app.ask(m.QueueCreate, "F@FAR")
    return Home(app.manager)


def row(app: Client) -> dict[str, Any]:
    return dict(app.ask(m.LinkShow, "FAR"))


def test_link_without_an_address_waits_for_its_peer(app: Client, home: Home) -> None:
    assert row(app)["state"] == "waiting"
    assert row(app)["error"] == "the link has no address: FAR must dial, and fetch"
    assert row(app)["paths"] == []


def test_what_waits_goes_over_the_connection_that_fetches_G10(app: Client, home: Home) -> None:
    app.put("F@FAR", b"1", b"2")
    opening = home.fetch()
    assert (opening.path, opening.stream_id[:16]) == (128, b"S" * 16)
    (put,) = home.opened()
    assert (put.queue, put.first_id, len(put.records)) == ("F", 1, 2)
    assert (row(app)["state"], row(app)["connections_up"]) == ("up", 1)
    home.hear(m.Committed(1, 2, taken=2))
    assert row(app)["waiting"] == 0
    app.put("F@FAR", b"3")
    (put,) = home.client.hear()
    assert put.first_id == 3


def test_both_send_over_one_connection(app: Client, home: Home) -> None:
    home.open()
    home.fetch()
    home.opened()
    home.send(1, message(1))
    assert app.bodies("Q") == [b"1"]
    app.put("F@FAR", b"x")
    told = home.client.hear()
    assert [type(x) for x in told] == [m.Put, m.Committed], (
        "the commit is in the same turn as the put"
    )
    assert told[1] == m.Committed(home.stream, 1, taken=1)


def test_window_is_that_of_the_fetching_peer(app: Client, home: Home) -> None:
    app.put("F@FAR", *[b"x"] * 150)
    home.fetch()
    assert sum(len(x.records) for x in home.opened() if type(x) is m.Put) == 100


def test_path_ends_with_the_connection_and_what_flew_goes_over_the_next(
    app: Client, home: Home
) -> None:
    app.put("F@FAR", b"1")
    home.fetch()
    assert [x.first_id for x in home.opened() if type(x) is m.Put] == [1]
    home.client.hang_up()
    app.manager.turn()
    assert (row(app)["state"], row(app)["paths"]) == ("waiting", [])
    again = Home(app.manager)
    again.fetch()
    assert [x.first_id for x in again.opened() if type(x) is m.Put] == [1]


def test_newer_connection_has_the_path(app: Client, home: Home) -> None:
    home.fetch()
    home.opened()
    again = Home(app.manager)
    again.fetch()
    again.opened()
    assert home.client.goaway is not None
    assert home.client.goaway.code == ErrorCode.LINK_FENCED
    assert row(app)["connections_up"] == 1
    other = Home(app.manager)
    other.fetch(FETCH._replace(path=1))
    other.opened()
    assert row(app)["connections_up"] == 2


def test_fetch_requires_a_link_and_the_same_store(app: Client, home: Home) -> None:
    nobody = Home(app.manager, "NOBODY", b"x" * 16)
    (error,) = nobody.hear(FETCH)
    assert error.code == ErrorCode.LINK_UNKNOWN
    home.fetch()
    (error,) = Home(app.manager, store_id=b"G" * 16).hear(FETCH)
    assert error.code == ErrorCode.PEER_STORE_CHANGED


def test_stopped_link_is_not_fetched_from(app: Client, home: Home) -> None:
    home.fetch()
    app.ask(m.LinkStop, "FAR")
    assert home.client.goaway is not None
    (error,) = Home(app.manager).hear(FETCH)
    assert error.code == ErrorCode.LINK_DOWN
    app.ask(m.LinkStart, "FAR")
    Home(app.manager).fetch()


def test_path_out_of_range_breaks_the_protocol(app: Client, home: Home) -> None:
    home.hear(FETCH._replace(path=128))
    assert home.client.goaway is not None
    assert home.client.goaway.code == ErrorCode.FIELD_INVALID


def test_answer_without_a_request_breaks_the_protocol(app: Client, home: Home) -> None:
    home.hear(m.Committed(1, 1))
    assert home.client.goaway is not None


def test_link_with_an_address_dials_it_and_ignores_fetches(app: Client, home: Home) -> None:
    app.ask(m.LinkAlter, "FAR", {"addresses": ["h:1"]})
    (error,) = home.hear(FETCH)
    assert (error.code, "its peer cannot fetch" in error.text) == (ErrorCode.LINK_DOWN, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"frame_max_bytes": 65_535},
        {"message_max_bytes": 0},
        {"put_window_messages": 0},
        {"put_window_bytes": 0},
    ],
)
def test_limits_that_let_nothing_through_break_the_protocol(
    home: Home, changes: dict[str, Any]
) -> None:
    home.hear(FETCH._replace(**changes))
    assert home.client.goaway is not None
    assert home.client.goaway.code == ErrorCode.FIELD_INVALID


def test_connection_is_fetched_over_once(home: Home) -> None:
    home.fetch()
    home.hear(FETCH._replace(path=1))
    assert home.client.goaway is not None


def test_text_of_a_blocked_peer_is_passed_on_with_its_name(app: Client, home: Home) -> None:
    app.put("F@FAR", b"1")
    home.fetch()
    home.opened()
    home.hear(m.Blocked(1, 1, ErrorCode.QUEUE_UNKNOWN, 1, "no queue F", taken=1))
    assert row(app)["error"].endswith("FAR reports: no queue F")


def test_path_of_a_restarted_peer_is_removed(app: Client, home: Home) -> None:
    home.fetch()
    home.opened()
    again = Home(app.manager)
    again.fetch(FETCH._replace(path=1))
    again.hear(m.Ok(1, [1, 0, [], None, 4096, 7, 0, b""]))
    assert [path["path"] for path in row(app)["paths"]] == [129]


# -- the end that dials


def test_answer_without_a_request_opens_nothing(app: Client) -> None:
    lines = Lines(app.manager, connections=1)
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    line.say(m.Ok(2, None))
    assert line.goaway is not None
    assert line.goaway.code == ErrorCode.FIELD_INVALID


def test_dialler_asks_on_each_connection_and_is_sent_to(app: Client) -> None:
    lines = Lines(app.manager, fetch=True)
    one, two = lines.answer(), lines.answer()
    for path, line in enumerate((one, two)):
        line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
        limits = app.manager.config.limits
        assert line.sent[-1] == m.LinkFetch(
            2,
            path,
            limits.frame_max_bytes,
            limits.message_max_bytes,
            limits.put_window_messages,
            limits.put_window_bytes,
        )
        line.say(m.Ok(2, None))
    assert [path["fetches"] for path in lines.row["paths"]] == ["yes", "yes"]
    one.sent.clear()
    stream = b"N" * 16 + bytes(8)
    one.say(m.LinkOpen(1, stream, 1, 1, b"", 128))
    (ok,) = one.sent
    one.say(m.Put(ok.value[0], 1, 0, "Q", [message(1)]))
    assert app.bodies("Q") == [b"1"]


def test_dialler_that_is_refused_asks_again(app: Client) -> None:
    lines = Lines(app.manager, connections=1, fetch=True)
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    line.sent.clear()
    line.say(m.Error(2, ErrorCode.LINK_UNKNOWN, 0, 0, "no link"))
    assert lines.row["paths"][0]["fetches"] == "LINK_UNKNOWN: no link"
    lines.turn(999)
    assert line.sent == []
    lines.turn(1)
    assert [type(x) for x in line.sent] == [m.LinkFetch]


def test_dialler_that_did_not_ask_takes_nothing(app: Client) -> None:
    lines = Lines(app.manager, connections=1)
    line = lines.answer()
    line.say(m.Welcome(1, "NYC", b"N" * 16, 1))
    line.say(m.LinkOpen(1, b"N" * 16 + bytes(8), 1, 1))
    assert line.goaway is not None
    assert line.goaway.code == ErrorCode.FIELD_INVALID
