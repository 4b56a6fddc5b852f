"""Tests that all distributions have the same version."""

import re
from pathlib import Path

import pytest

from qmgr_protocol.version import VERSION

REPO = Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["", "protocol", "qmgrd", "spark"])
def test_distribution_reads_its_version_here(path: str) -> None:
    text = (REPO / path / "pyproject.toml").read_text()
    assert re.search(r'^path = "(\.\./)?(protocol/)?qmgr_protocol/version.py"$', text, re.M)


def test_image_has_the_version() -> None:
    assert f'image.version="{VERSION}"' in (REPO / "Dockerfile").read_text()
