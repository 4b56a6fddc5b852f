from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.own.traffic import INFLIGHT, fill, get, put, rates
from qmgr_protocol import messages as m


@pytest.mark.process
def test_what_is_filled_is_reported_and_got(tmp_path: Path) -> None:
    words: list[str] = []
    with Host(tmp_path) as host:
        host.ask(m.QueueCreate, "Q")
        fill(host, "Q", 1_000, words.append)
        assert words[-1].startswith("BENCH: filling Q: 1,000 of 1,000, ")
        got = get(host, "Q", 1_000)
        assert (got.messages, host.depth("Q")) == (1_000, 0)
        many, single = put(host, "Q", 0.1), put(host, "Q", 0.1, coalesce=False)
        assert many.messages + single.messages == host.depth("Q") >= 2 * INFLIGHT
        assert min(rates([got, many, single])) > 0
