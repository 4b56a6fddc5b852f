from pathlib import Path

import pytest

from qmgr_bench.host import Host
from qmgr_bench.own.group_rates import (
    LIKE,
    MEMBERS,
    QUEUE,
    get_name,
    group_rates,
    put_name,
    records_of,
    run_of,
)
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import GROUP_ID_BYTES, decode


def test_producers_put_whole_groups_of_their_own() -> None:
    made = records_of(3, 10, grouped=True)
    members = [decode(made(number)).group for number in range(MEMBERS + 1)]
    first = b"3.0".ljust(GROUP_ID_BYTES, b"\0")
    assert members[:MEMBERS] == [(first, at, at == MEMBERS) for at in range(1, MEMBERS + 1)]
    assert members[MEMBERS] == (b"3.1".ljust(GROUP_ID_BYTES, b"\0"), 1, False)
    plain = records_of(3, 10, grouped=False)
    assert [decode(plain(number)).group for number in (0, 99, 100)] == [None] * 3
    assert decode(plain(100)).body == decode(made(100)).body


@pytest.mark.process
@pytest.mark.parametrize("row", LIKE)
def test_run_puts_groups_and_consumes_them_all(tmp_path: Path, row: str) -> None:
    with Host(tmp_path) as host:
        put, got = run_of(host, row, 20 * MEMBERS, grouped=True)
        assert (put.messages, got.messages) == (20 * MEMBERS, 20 * MEMBERS)
        with pytest.raises(RequestError, match=QUEUE):
            host.ask(m.QueueShow, QUEUE)


@pytest.mark.process
def test_grouped_is_measured_beside_plain(tmp_path: Path) -> None:
    found = group_rates(Setting(tmp_path, 0.1, 2))
    names = [name(row) for row in LIKE for name in (put_name, get_name)]
    assert [rate.work for rate in found] == names
    for rate in found:
        assert min(rate.messages_per_s, rate.cpu_us, rate.plain_cpu_us, rate.ratio) > 0
