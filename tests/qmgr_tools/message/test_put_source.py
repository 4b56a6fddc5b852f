import io
from pathlib import Path

import pytest

from qmgr_tools.cli.failure import Failure
from qmgr_tools.message import put_source


def test_lines_come_in_batches_and_with_what_tells_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(put_source, "LINES_AT_A_TIME", 2)
    found = list(put_source.batches(io.BytesIO(b"a\nb\n\nd"), has_last=True))
    assert found == [([b"a", b"b"], False), ([b"", b"d"], True)]
    assert not any(end for _, end in put_source.batches(io.BytesIO(b"a"), has_last=False))


def test_body_is_read_from_where_it_is(tmp_path: Path) -> None:
    file = tmp_path / "order"
    file.write_bytes(b"\xff")
    assert put_source.read("a", None) == b"a"
    assert put_source.read(None, file) == b"\xff"
    source, size = put_source.opened(file)
    with source:
        assert (source.read(), size) == (b"\xff", 1)
    for reads in (lambda: put_source.read(None, tmp_path), lambda: put_source.opened(tmp_path)):
        with pytest.raises(Failure, match="cannot read"):
            reads()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((False, False, False, False, False), "no message is given"),
        ((True, True, False, False, False), "exclude each other"),
        ((True, False, False, True, False), "not a BODY"),
        ((False, True, False, True, True), "applies to one message"),
    ],
)
def test_what_is_put_is_said_in_one_way(given: tuple[bool, ...], why: str) -> None:
    body, file, stdin, lines, uid = given
    with pytest.raises(Failure, match=f"cannot put on Q -- .*{why}"):
        put_source.check("put on Q", body, file, stdin=stdin, lines=lines, uid=uid)
