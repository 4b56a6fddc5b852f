"""Epochs of members, which tests can know."""

import pytest

from qmgrd.engine import fence


@pytest.fixture(autouse=True)
def epochs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets epochs be 1, 2, 3, ..."""
    monkeypatch.setattr(fence, "EPOCH_STEPS", 1)
