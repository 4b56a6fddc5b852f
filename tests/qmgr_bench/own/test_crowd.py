from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.load import Load, LoadFailed, Plan
from qmgr_bench.own.crowd import DESTINATION, CrowdReceiver, name_of, subscribe
from qmgr_bench.own.traffic import sender_on
from qmgr_bench.qmgr import Wire
from qmgr_protocol import messages as m

pytestmark = pytest.mark.process


def test_each_subscriber_gets_and_acknowledges_each_publication(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        names = subscribe(host, 3)
        assert names == [name_of(0), name_of(1), name_of(2)]
        with Wire(host.address, "put") as put, Wire(host.address, "get") as get:
            load = Load(
                Plan(10, 60, 50, copies=3),
                [sender_on(put, DESTINATION)],
                CrowdReceiver(get, names, 16),
            )
            outcome = load.run()
        assert (outcome.messages, outcome.put.count, outcome.ack.count) == (150, 50, 150)
        assert host.depth("SYSTEM.PUBLICATIONS") == 0


def test_unknown_subscription_is_a_failure(tmp_path: Path) -> None:
    with Host(tmp_path) as host, Wire(host.address, "get") as wire:
        receiver = CrowdReceiver(wire, [name_of(7)], 16)
        with pytest.raises(LoadFailed, match="unexpected answer for a subscriber"):
            Load(Plan(0, 60, 1), [], receiver).run()
        assert wire.ask(m.Status)["name"] == "BENCH"
