"""Loads the configuration from a TOML file, the environment and the command line.

If several sources set an option, the last of these sources takes precedence.
`QMGRD_STORE__MAP_BYTES` sets store.map_bytes. Names without a double underscore are ignored,
because Kubernetes sets variables such as QMGRD_PORT for a service that is named qmgrd.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

from qmgr_config.model import Config
from qmgr_config.units import shown

PREFIX = "QMGRD_"
FILE_MAX_BYTES = 1 << 20

Tree = dict[str, Any]


class ConfigError(Exception):
    """The configuration is invalid. The text has one line for each fault, with its path."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def load(path: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Config:
    """Returns the checked configuration.

    Args:
        path: The path of the file, or None if no file is used.
        overrides: The options of the command line. Keys are dotted paths, as in
            {"listen.unix": "off"}, or nested as in the file.

    Raises:
        ConfigError: The configuration is invalid. The error lists every fault.
    """
    environment = _from_environment()
    tree = _from_file(path) if path is not None else {}
    tree = _merged(_merged(tree, environment), _nested(overrides or {}))
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        faults = [_fault(details, environment) for details in error.errors(include_url=False)]
        raise ConfigError(faults) from None
    except UnicodeEncodeError:  # Pydantic does not check values that it cannot encode.
        raise ConfigError(list(_not_utf8("", tree))) from None


def _not_utf8(path: str, value: Any) -> Iterator[str]:
    """Yields a fault for each string of the command line that is not valid UTF-8."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _not_utf8(f"{path}.{key}".removeprefix("."), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _not_utf8(path, inner)
    elif isinstance(value, str) and not _is_utf8(value):
        yield f"{path}: {value!r} is not UTF-8"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_file(path: Path) -> Tree:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_MAX_BYTES + 1)
        if len(text) > FILE_MAX_BYTES:
            raise ConfigError([f"{path}: longer than {FILE_MAX_BYTES} bytes"])
        return tomllib.loads(text.decode())
    except OSError as error:
        raise ConfigError([f"{path}: cannot read the file: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: invalid UTF-8 at byte {error.start}"]) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{path}: invalid TOML: {error}"]) from None


class _Environment(Config, BaseSettings):
    """The structure of the configuration for pydantic-settings.

    The class is never instantiated. Therefore, only the model checks values.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", enable_decoding=False
    )


def _from_environment() -> Tree:
    tree: Tree = EnvSettingsSource(_Environment)()
    for name, value in os.environ.items():
        section, delimiter, key = name.removeprefix(PREFIX).lower().partition("__")
        if name.startswith(PREFIX) and delimiter and section not in Config.model_fields:
            tree = _merged(tree, {section: {key: value}})
    return tree


def _nested(overrides: Mapping[str, Any]) -> Tree:
    tree: Tree = {}
    for path, value in overrides.items():
        for key in reversed(path.split(".")):
            value = {key: value}
        tree = _merged(tree, value)
    return tree


def _merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> Tree:
    tables = {
        key: _merged(low[key], high[key])
        for key in low.keys() & high.keys()
        if isinstance(low[key], Mapping) and isinstance(high[key], Mapping)
    }
    return {**low, **high, **tables}


def _fault(details: ErrorDetails, environment: Tree) -> str:
    path = ".".join(str(part) for part in details["loc"])
    line = f"{path}: {_reason(path, details)}{_origin(path, details, environment)}"
    return " ".join(line.removeprefix(": ").split())  # A quoted key may contain a newline.


def _reason(path: str, details: ErrorDetails) -> str:
    value = shown(details["input"])
    match details["type"]:
        case "extra_forbidden":
            near = _nearest(path)
            return f"unknown key, did you mean {near}?" if near else "unknown key"
        case "value_error":
            return str(details["ctx"]["error"])
        case "literal_error":
            return f"{value} is not {details['ctx']['expected']}"
        case "model_type" | "model_attributes_type":
            return f"{value} is not a table"
        case "tuple_type":
            return f"{value} is not a list"
        case "string_type" | "string_unicode":
            return f"{value} is not text"
        case "path_type":
            return f"{value} is not a path"
        case kind if kind.startswith("bool_"):
            return f"{value} is not true or false"
        case _:
            return f"{value}: {details['msg']}"


def _nearest(path: str) -> str | None:
    known = list(_known_paths())
    elsewhere = [other for other in known if other.endswith("." + path.rpartition(".")[2])]
    return next(iter(elsewhere + get_close_matches(path, known, n=1)), None)


def _known_paths() -> Iterator[str]:
    for section, field in Config.model_fields.items():
        yield section
        for key in type(field.default).model_fields:
            yield f"{section}.{key}"


def _origin(path: str, details: ErrorDetails, environment: Tree) -> str:
    value: Any = environment
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or value != details["input"]:
        return ""
    name = PREFIX + path.replace(".", "__").upper()
    return f" (set by {name}__*)" if isinstance(value, dict) else f" (set by {name})"
