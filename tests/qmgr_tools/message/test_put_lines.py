"""Tests of the rate at which lines are put. test_message.py and test_publish.py test messages."""

import re
from collections.abc import Iterator

import pytest

from qmgr_tools.message import put_lines, put_source
from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def test_rate_of_many_lines_is_told(qm: Qmctl, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_lines, "RATED_MESSAGES", 2)
    put = qm("put", queue, "--lines", stdin=b"a\nb\n")
    assert re.fullmatch(rf"put on {queue}: 2 messages, [\d,]+ a second\n", put.out)


def test_interrupted_lines_say_how_far_they_came(
    qm: Qmctl, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def batches(source: object, **_: object) -> Iterator[tuple[list[bytes], bool]]:
        yield [b"a", b"b"], False
        raise KeyboardInterrupt

    monkeypatch.setattr(put_source, "batches", batches)
    ended = qm("put", queue, "--lines", stdin=b"a\nb\nc\n")
    assert (ended.code, ended.out) == (130, "")
    assert ended.err == "interrupted: 2 messages put, and possibly some of the next 1000 lines\n"
