import pytest

from qmgr_client.blocking import connect
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.group import missing as group_missing
from tests.qmgr_tools.conftest import Daemon

pytestmark = pytest.mark.process


def padded(text: str) -> bytes:
    return text.encode().ljust(24, b"\0")


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [
        (padded("n12345"), "did you mean N12345? see: qmctl group ls {}"),
        (padded("two word"), "did you mean 'two words'? see: qmctl group ls {}"),
        (padded("NN12345"), "did you mean N12345? see: qmctl group ls {}"),
        (padded("N12344"), "see: qmctl group ls {}"),
        (padded("N1234"), "see: qmctl group ls {}"),
        (padded("elsewhere"), "see: qmctl group ls {}"),
        (b"\xff" * 24, "see: qmctl group ls {}"),
    ],
)
def test_group_is_looked_for_among_those_that_are(
    wanted: bytes, remedy: str, queue: str, daemon: Daemon
) -> None:
    with connect(daemon.unix) as client:
        for name in ("N12345", "two words"):
            client.put(queue, b"x", group=(padded(name), 1, False))
        assert group_missing.similar_group(client, queue, wanted) == remedy.format(queue)


def test_other_refusals_pass(queue: str, daemon: Daemon) -> None:
    with connect(daemon.unix) as client:
        with (
            pytest.raises(RequestError, match="no room"),
            group_missing.suggesting(client, "show it", queue, padded("N1")),
        ):
            raise RequestError(ErrorCode.QUEUE_FULL, "no room")
        with (
            pytest.raises(
                Failure, match=f"cannot show it .* see: qmctl group ls {queue}"
            ) as failed,
            group_missing.suggesting(client, "show it", queue, padded("N1")),
        ):
            raise RequestError(ErrorCode.GROUP_UNKNOWN, "no group N1")
        assert failed.value.exit_code is Exit.NOT_FOUND
