import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.setting import Setting


def test_scale_leaves_one_message() -> None:
    setting = Setting(Path(), 1, 1, 0.001)
    assert (setting.scaled(1_000_000), setting.scaled(10)) == (1_000, 1)


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_disk_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str] = []
    setting = replace(Setting(tmp_path, 1, 1), say=words.append)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(100 << 30, 93 << 30, 7 << 30))
    with pytest.raises(LoadFailed, match=r"about 5.2 GiB .* 7 GiB are free: use another --dir"):
        setting.check_disk(10_000_000)
    setting.check_disk(1_000_000)
    assert words == ["1,000,000 messages need about 534.1 MiB of disk space; 7 GiB are free"]
