"""Sends hostile bytes to one end of a connection, in every state."""

from random import Random

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import LocalProtocolError, RemoteProtocolError
from qmgr_protocol.frame import encode
from qmgr_protocol.states import Side, State
from tests.fuzz.frames import STORE_IDS, Maker

FRAME_MAX_BYTES = 128 * 1024
FRAMES_A_ROUND = 60
_HELLOS = (
    m.Hello(m.MAGIC, 1, 1, "client", "app", frame_max_bytes=FRAME_MAX_BYTES),
    m.Hello(
        m.MAGIC,
        1,
        1,
        "client",
        "app",
        frame_max_bytes=FRAME_MAX_BYTES,
        auth_method="scram-sha-256",
        auth_data=b"n,,n=app,r=x",
    ),
    m.Hello(
        m.MAGIC, 1, 1, "queue-manager", "QM2", [], STORE_IDS[0], frame_max_bytes=FRAME_MAX_BYTES
    ),
)
_LOGIN = (
    (Side.LISTENER, m.AuthChallenge(b"r=xy,s=AAAAAAAAAAAAAAAAAAAAAA==,i=4096")),
    (Side.DIALLER, m.AuthAnswer(b"c=biws,r=xy,p=AAAA")),
)
_WELCOME = m.Welcome(1, "QM1", STORE_IDS[1], 1, frame_max_bytes=FRAME_MAX_BYTES)


def fuzz_wire(seed: int) -> int:
    """Runs the round of *seed*; returns the number of frames that it sent.

    Raises:
        AssertionError: The connection broke a rule of the protocol.
    """
    rng = Random(f"wire {seed}")
    maker = Maker(rng)
    sent = 0
    while sent < FRAMES_A_ROUND:
        side, steps, hello = rng.choice(list(Side)), rng.randrange(6), rng.choice(_HELLOS)
        one, other = _at(side, steps, hello), _at(side, steps, hello)
        frames = [maker.frame() for _ in range(rng.randint(1, 6))]
        sent += len(frames)
        data = b"".join(frames)
        at_once = one.receive(data, 1)
        in_pieces = [found for chunk in maker.chunks(data) for found in other.receive(chunk, 1)]
        assert list(map(repr, at_once)) == list(map(repr, in_pieces)), "chunks matter"
        assert (one.state, str(one.error)) == (other.state, str(other.error)), "chunks matter"
        assert isinstance(one.error, RemoteProtocolError | None)
        assert one.buffered_bytes < FRAME_MAX_BYTES + 4
        assert sum(size_bytes for _, size_bytes in at_once) <= len(data)
        assert all(size_bytes <= FRAME_MAX_BYTES + 4 for _, size_bytes in at_once), "too long"
        _answer(one, maker)
    return sent


def _answer(connection: Connection, maker: Maker) -> None:
    """Checks that the table of states allows our output, or that we report our own error."""
    before = connection.state
    message = maker.message(maker.kind())
    try:
        data = connection.send(message)
    except LocalProtocolError:
        assert connection.state is before
    else:
        assert data == encode(layout.to_array(message))
        assert before is not State.CLOSED


def _at(side: Side, steps: int, hello: m.Hello) -> Connection:
    """Returns an end of a connection after *steps* steps of a normal handshake."""
    connection = Connection(side)
    login = _LOGIN if hello.auth_method != "none" else ()
    ending = ((Side.LISTENER, _WELCOME), (Side.LISTENER, m.Goaway(0)))
    talk: tuple[tuple[Side, m.Message], ...] = ((Side.DIALLER, hello), *login, *ending)
    for sender, message in talk[:steps]:
        if sender is side:
            connection.send(message)
        else:
            connection.receive(encode(layout.to_array(message)), 0)
    return connection
