from pathlib import Path

import pytest

from qmgr_bench.own.references import NODE_BYTES, references
from qmgr_bench.setting import Setting


@pytest.mark.process
def test_further_subscription_takes_one_entry_a_publication(tmp_path: Path) -> None:
    found = references(Setting(tmp_path, 0.1, 1, 0.05))
    assert (found.subscriptions, found.publications) == (50, 100)
    assert 1 <= found.entries < 1.1  # The subscription itself also needs some entries.
    assert 30 < found.content_bytes < 60
    assert found.bytes == pytest.approx(found.content_bytes + NODE_BYTES * found.entries, abs=0.1)
    assert found.page_bytes >= found.bytes
    assert found.publication_bytes > 256
