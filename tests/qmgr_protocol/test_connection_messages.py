"""The messages of the connection itself, and what they carry if nobody says so."""

from qmgr_protocol import connection_messages, layout
from qmgr_protocol import messages as m

KINDS = (m.Hello, m.Welcome, m.Goaway, m.Ping, m.Pong)


def test_they_are_messages_like_any_other() -> None:
    found = [kind for kind in vars(connection_messages).values() if hasattr(kind, "_fields")]
    assert found == list(KINDS)
    assert [layout.NUMBERS[kind] for kind in KINDS] == [1, 2, 3, 4, 5]


def test_empty_session_is_left_out() -> None:
    """An older peer sends none, and is sent none that it does not know."""
    for message in (m.Hello(m.MAGIC, 1, 1, "client", "a"), m.Welcome(1, "QM1", b"S" * 16, 1)):
        array = layout.to_array(message)
        assert len(array) == len(message)
        assert layout.parse(list(array)) == message
        resumed = message._replace(session=b"secret")
        assert layout.to_array(resumed) == (*array, b"secret")
        assert layout.parse([*array, b"secret"]) == resumed
