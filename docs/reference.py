"""Generates the pages of options, commands, errors and Python names from the code."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from typing import Any, get_args

import typer

from qmgr_config.load import PREFIX
from qmgr_config.model import Config
from qmgr_config.quantity import Quantity
from qmgr_protocol.errors import ErrorClass, ErrorCode
from qmgr_tools.main import app

PYTHON = {
    "client": (
        "The Python client",
        [
            "qmgr_client.aio",
            "qmgr_client.blocking",
            "qmgr_client.attributes",
            "qmgr_client.rows",
            "qmgr_client.manager_rows",
            "qmgr_client.duration",
            "qmgr_client.outgoing",
            "qmgr_client.message",
            "qmgr_client.dead_letter",
            "qmgr_client.selection",
            "qmgr_client.errors",
        ],
    ),
    "protocol": (
        "The protocol in Python",
        [
            "qmgr_protocol.connection",
            "qmgr_protocol.frame",
            "qmgr_protocol.record",
            "qmgr_protocol.window",
            "qmgr_protocol.name",
            "qmgr_protocol.topic",
            "qmgr_protocol.messages",
            "qmgr_protocol.operation",
            "qmgr_protocol.errors",
        ],
    ),
}
NOUNS = {  # the headings of the error page, by the hundreds of the codes
    1: "Connections",
    2: "Any request",
    3: "Queues",
    4: "Messages",
    5: "Leases and consumers",
    6: "Streams: producers and links",
    7: "Links",
    8: "Snapshots",
    9: "Units of work",
    10: "Jobs",
    11: "Message groups",
    12: "Topics and subscriptions",
    13: "History",
    14: "Work set aside",
    15: "Users and roles",
    16: "Members of a queue manager",
}


# -- options


def configuration() -> str:
    """Returns the page that describes all options."""
    parts = [
        "# Configuration reference",
        "",
        "This page lists every option of `qmgrd.toml`. A size is a number of bytes or a text such "
        'as `"64 GiB"`. A time is a number of milliseconds or a text such as `"30 s"`. '
        f"In the environment, `store.map_bytes` is `{PREFIX}STORE__MAP_BYTES`.",
        "",
    ]
    for section, field in Config.model_fields.items():
        parts += [
            f"## {section}",
            "",
            "| option | default | allowed values | meaning |",
            "|---|---|---|---|",
        ]
        descriptions = type(field.default).descriptions()
        for name, option in type(field.default).model_fields.items():
            quantity = next((x for x in option.metadata if isinstance(x, Quantity)), None)
            default = getattr(field.default, name)
            shown = quantity.text(default) if quantity else _toml(default)
            allowed = _allowed(option, quantity)
            meaning = _escaped(descriptions.get(name))
            parts.append(f"| `{name}` | `{shown}` | {allowed} | {meaning} |")
        parts.append("")
    return "\n".join(parts)


def _allowed(option: Any, quantity: Quantity | None) -> str:
    if quantity:
        return quantity.bounds
    if choices := get_args(option.annotation):
        return ", ".join(f"`{_toml(choice)}`" for choice in choices if isinstance(choice, str)) or (
            "a list of texts"
        )
    return "`true`, `false`" if option.annotation is bool else "text"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"'


# -- commands


def commands() -> str:
    """Returns the page that describes all commands of qmctl."""
    root = typer.main.get_command(app)
    context = root.make_context("qmctl", [], resilient_parsing=True)
    shared = {param.name for param in root.params} | {"help"}
    parts = [
        "# Commands",
        "",
        *_prose(root.help or ""),
        "",
        "You can give these options before or after any command:",
        "",
    ]
    parts += [*_options(root, context, set()), "", *_prose(root.epilog or ""), ""]
    for command, inner in _walk(root, context):
        level = "#" * inner.command_path.count(" ")
        parts += [f"#{level} {inner.command_path}", ""]
        if not hasattr(command, "commands"):
            usage = " ".join(command.collect_usage_pieces(inner))
            parts += ["```text", f"{inner.command_path} {usage}", "```", ""]
        parts += [*_prose(command.help or ""), ""]
        if not hasattr(command, "commands"):
            parts += [*_options(command, inner, shared), ""]
        parts += [*_prose(command.epilog or ""), ""]
    return "\n".join(parts)


def _walk(group: Any, context: Any) -> Iterator[tuple[Any, Any]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:
            continue
        inner = type(context)(command, info_name=name, parent=context)
        yield command, inner
        if hasattr(command, "commands"):
            yield from _walk(command, inner)


def _prose(text: str) -> Iterator[str]:
    r"""Yields paragraphs as prose, and preformatted paragraphs (\b, or indented) unchanged."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b") or re.search(r"(?m)^  ", paragraph):
            yield from ("```text", paragraph.removeprefix("\b").strip("\n"), "```", "")
        elif paragraph:
            yield from (_escaped(" ".join(paragraph.split())), "")


def _options(command: Any, context: Any, left_out: set[str]) -> Iterator[str]:
    records = [
        param.get_help_record(context)
        for param in command.get_params(context)
        if param.name not in left_out
    ]
    if records:
        yield "| | |"
        yield "|---|---|"
    for record in records:
        if record:  # None means a hidden parameter.
            signature, meaning = (" ".join(text.split()).replace("|", "\\|") for text in record)
            yield f"| `{signature}` | {_escaped(meaning)} |"


def _escaped(text: str) -> str:
    return re.sub(r"([<>*_@`\[\]])", r"\\\1", text)


# -- errors


def errors() -> str:
    """Returns the page that describes all error codes, with their meanings and remedies."""
    parts = [
        "# Errors",
        "",
        "Commands, clients, logs and the protocol use the same codes. The class of a code states "
        "whether to retry:",
        "",
        *(f"* **{kind.word}**: {kind.means}" for kind in ErrorClass),
        "",
        "`qmctl explain CODE` shows the same texts. CODE is a name, a number, or a reason code of "
        "IBM MQ. The column MQ contains the equivalent reason code of IBM MQ, if one exists.",
    ]
    for noun, codes in groupby(ErrorCode, lambda code: NOUNS[code // 100]):
        parts += ["", f"## {noun}", "", "| code | class | means | what to do | MQ |"]
        parts.append("|---|---|---|---|---|")
        for code in codes:
            cells = (
                f"{code.value} `{code.name}`",
                code.error_class.word,
                _escaped(code.means),
                _escaped(code.remedy),
                code.mq.partition(" ")[0],
            )
            parts.append(f"| {' | '.join(cells)} |")
    return "\n".join([*parts, ""])


# -- Python names


def python_names() -> dict[str, str]:
    """Returns the pages of public Python names."""
    names = "\n".join(PYTHON)
    index = "# Python names\n\nThese pages list the public names, with their docstrings.\n\n"
    found = {"api/index.md": f"{index}```{{toctree}}\n{names}\n```\n"}
    seen: set[object] = set()
    for page, (title, modules) in PYTHON.items():
        parts = [f"# {title}", ""]
        for module in modules:
            parts += _module(module, seen)
        found[f"api/{page}.md"] = "\n".join(parts)
    return found


CLIENTS = ("qmgr_client.aio.", "qmgr_client.blocking.")  # The classes here inherit methods.


def _module(name: str, seen: set[object]) -> list[str]:
    module = import_module(name)
    parts = [f"## {name}", "", "```{eval-rst}", f".. py:module:: {name}", ""]
    for public in sorted(_public(module), key=lambda public: _rank(getattr(module, public))):
        found = getattr(module, public)
        if found not in seen:
            seen.add(found)
            parts.append(f".. auto{'class' if inspect.isclass(found) else 'function'}:: {public}")
            if inspect.isclass(found):
                parts += ["   :members:"]
                parts += ["   :inherited-members:"] * found.__module__.startswith(CLIENTS)
            parts.append("")
    return [*parts, "```", ""]


def _public(module: Any) -> Iterator[str]:
    """Yields the names in `__all__`, or by default the functions and classes of the module."""
    exported, is_package = getattr(module, "__all__", None), hasattr(module, "__path__")
    for name, found in vars(module).items():
        if not (inspect.isfunction(found) or inspect.isclass(found)):
            continue
        is_own = is_package or found.__module__ == module.__name__
        if name in exported if exported is not None else is_own and not name.startswith("_"):
            yield name


def _rank(found: object) -> int:
    """Returns a sort key that orders functions first, then classes, then exceptions."""
    if not inspect.isclass(found):
        return 0
    return 2 if issubclass(found, BaseException) else 1
