"""Tests of the pages that are generated from the code."""

import typer

from docs import reference
from qmgr_config.model import Config
from qmgr_protocol.errors import ErrorCode
from qmgr_tools.main import app


def test_each_option_is_listed_once_with_its_default_and_bounds() -> None:
    page, count = reference.configuration(), 0
    for section, field in Config.model_fields.items():
        part = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        for name in type(field.default).model_fields:
            assert part.count(f"| `{name}` |") == 1
            count += 1
    assert count >= 60, f"found only {count} options"
    assert "| `map_bytes` | `64 GiB` | 1 MiB to 16 TiB | The maximum size of the store" in page
    assert '| `tcp` | `["127.0.0.1:7470"]` | a list of texts |' in page
    assert '| `format` | `"auto"` | `"auto"`, `"console"`, `"json"` |' in page


def test_each_command_is_listed_with_its_options() -> None:
    page = reference.commands()
    root = typer.main.get_command(app)
    assert isinstance(root, typer.core.TyperGroup)
    assert len(root.commands) >= 30, f"found only {len(root.commands)} commands"
    for name in root.commands:
        assert f"\n## qmctl {name}\n" in page
    part = page.partition("\n### qmctl queue create\n")[2].partition("\n### ")[0]
    assert "```text\nqmctl queue create [OPTIONS] {QUEUE}\n```" in part
    assert "| `--lease TIME` | Time after which an unsettled message" in part
    assert "--connect" not in part  # This option is documented once, for all commands.


def test_each_error_is_listed_once_with_its_remedy() -> None:
    page = reference.errors()
    assert len(ErrorCode) >= 110, f"found only {len(ErrorCode)} errors"
    for code in ErrorCode:
        assert page.count(f"| {code.value} `{code.name}` | {code.error_class.word} | ") == 1
    queues = page.partition("\n## Queues\n")[2].partition("\n## ")[0]
    assert "| 303 `QUEUE_FULL` | later | The queue holds depth\\_max messages. | Get or" in queues
    assert " is too low. | 2053 |" in queues


def test_public_names_are_listed_once_under_the_module_that_exports_them() -> None:
    pages = reference.python_names()
    count = sum(page.count("\n.. auto") for page in pages.values())
    assert count >= 220, f"found only {count} names"
    client = pages["api/client.md"]
    assert client.count(".. autofunction:: connect\n") == 2  # one in aio and one in blocking
    assert client.count(".. autoclass:: Message\n") == 1
    assert ".. autoclass:: Delivered" not in client
    assert ".. autofunction:: class_of\n" in pages["api/protocol.md"]
