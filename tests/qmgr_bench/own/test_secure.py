from pathlib import Path

import pytest

from qmgr_bench.own.secure import KINDS, ROWS, TLS, USERS, Secured, Security, secure
from qmgr_bench.setting import Setting


def result(users: float, tls: float, start_ms: float) -> Security:
    series = [
        Secured("W2", "open", 1_000, 10, 1.0, 1.0),
        Secured("W2", USERS, 1_000 * users, 10, users, 1.0),
        Secured("W2", TLS, 1_000 * tls, 10, tls, 1.0),
    ]
    return Security(series, 10, 100, start_ms, 200)


def test_rights_tls_and_the_start_are_judged() -> None:
    assert [x.reached for x in result(0.97, 0.75, 1_000).targets()] == [True, True, True]
    assert [x.reached for x in result(0.96, 0.74, 1_001).targets()] == [False, False, False]
    assert [x.what for x in result(1, 1, 1).targets()] == [
        "W2 with users, relative to neither",
        "W2 with tls, relative to neither",
        "time from start to first answer, 10 users and 100 grants",
    ]


def test_bars_have_all_kinds() -> None:
    _, bars = result(1, 1, 1).bars()
    assert [bar[0] for bar in bars] == ["W2, open", "W2, users", "W2, tls"]


@pytest.mark.process
@pytest.mark.slow
def test_each_row_is_measured_with_each_kind(tmp_path: Path) -> None:
    found = secure(Setting(tmp_path, 0.1, 1, 0.001))
    assert [(one.row, one.kind) for one in found.series] == [(r, k) for r in ROWS for k in KINDS]
    assert min(one.messages_per_s for one in found.series) > 0
    assert (found.users, found.grants) == (10, 100)
    assert min(found.start_ms, found.start_ms_open) > 0
