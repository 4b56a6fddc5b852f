"""The origins of messages that a linked queue manager may send. See also test_peer_rights.py."""

import pytest

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right
from qmgrd.core.puts import origin_right
from tests.qmgrd.core.harness import record


@pytest.mark.parametrize(
    ("origins", "asked"),
    [
        (("NYC", "NYC"), []),
        (("NYC", "EWR", "EWR"), ["EWR"]),
        (("EWR", "LAX"), ["EWR", "LAX"]),
        (("NYC2", "XNYC"), ["NYC2", "XNYC"]),  # The whole name counts.
    ],
)
def test_each_other_origin_needs_the_right(origins: tuple[str, ...], asked: list[str]) -> None:
    found: list[str] = []

    def check(right: Right, name: str) -> None:
        assert right is Right.FORWARD
        found.append(name)

    batch = [record(b"x", uid=(origin, at)) for at, origin in enumerate(origins, 1)]
    assert origin_right.refusal(check, batch, "NYC") is None
    assert found == asked


def test_error_is_that_of_the_missing_right() -> None:
    def check(right: Right, name: str) -> None:
        raise RequestError(ErrorCode.NOT_AUTHORIZED, f"{right.value} {name}")

    error = origin_right.refusal(check, [record(b"x", uid=("EWR", 1))], "NYC")
    assert error is not None
    assert (error.code, error.text) == (ErrorCode.NOT_AUTHORIZED, "forward EWR")
