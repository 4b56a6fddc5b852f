from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.transfer_mover import move
from qmgr_client.blocking import connect
from qmgr_client.message import Message
from qmgr_protocol import messages as m


@pytest.mark.process
def test_batch_is_seen_as_a_whole_and_gone_where_it_was(tmp_path: Path) -> None:
    with Host(tmp_path) as host, connect(host.address) as client:
        for queue in ("BATCH", "BATCHED"):
            host.ask(m.QueueCreate, queue)
        client.put_many("BATCH", [b"1", b"2", b"3"])
        seen = []

        def messages() -> Iterator[Message]:
            for message in client.get_many("BATCH", 3):
                yield message
                seen.append(client.get("BATCHED"))

        assert move(client, messages(), client, "BATCHED") == 3
        assert seen == [None, None, None]
        assert [found.body for found in client.get_many("BATCHED", 5)] == [b"1", b"2", b"3"]
        assert host.depth("BATCH") == 0
