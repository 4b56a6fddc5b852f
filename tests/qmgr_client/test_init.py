"""Tests of the names in the package, and of the cost of importing it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import qmgr_client
from qmgr_client import exports

NAMES: list[str] = getattr(qmgr_client, "__all__")  # noqa: B009


@pytest.mark.parametrize("name", NAMES)
def test_offered_name_exists(name: str) -> None:
    assert getattr(qmgr_client, name) is not None
    assert name in dir(qmgr_client)


def test_types_are_offered_to_checkers_as_they_are_at_run_time() -> None:
    assert qmgr_client.__file__
    tree = ast.parse(Path(qmgr_client.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    typed = {alias.asname for node in imports for alias in node.names if alias.name != "*"}
    assert typed | set(exports.__all__) == set(NAMES)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'conect'"):
        getattr(qmgr_client, "conect")  # noqa: B009


def test_import_of_the_package_imports_no_shell() -> None:
    """Each module can be the first to be imported, without an import cycle."""
    code = "import sys, qmgr_client; print('asyncio' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
    for name in ("ErrorCode", "Message", "QueueFull", "connect"):
        code = f"from qmgr_client import {name}; print({name}.__name__)"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert ran.stdout == f"{name}\n", ran.stderr
