from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import LoadFailed
from qmgr_bench.own.batches import FRAME_RECORDS, BatchSender
from qmgr_bench.own.traffic import pour
from qmgr_bench.qmgr import Wire
from qmgr_protocol import messages as m
from qmgr_protocol.record import Fields, decode, encode


def _numbered(number: int) -> bytes:
    return encode(Fields(b"%d" % number))


@pytest.mark.process
def test_messages_are_those_of_their_numbers_in_order(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, "Q")
        sender = BatchSender(wire, "Q", _numbered)
        pour(sender, FRAME_RECORDS + 1, "", lambda words: None)
        pour(sender, 2, "", lambda words: None)
        assert host.depth("Q") == FRAME_RECORDS + 3
        page = host.ask(m.Browse, "Q", None, 1_000)["items"]
        bodies = [int(decode(item[m.DELIVERY_BYTES :]).body) for item in page]
        assert bodies == [*range(FRAME_RECORDS + 3)]


@pytest.mark.process
def test_refusal_is_reported(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "test") as wire:
        host.ask(m.QueueCreate, "Q", {"depth_max": 1})
        with pytest.raises(LoadFailed, match="a put was refused: "):
            pour(BatchSender(wire, "Q", _numbered), 2, "", lambda words: None)
