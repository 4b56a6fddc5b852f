"""Tests that config/qmgrd.toml, which describes the model to operators, agrees with the model."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from qmgr_config.model import (
    FRAME_OVERHEAD_BYTES,
    Config,
    LimitsConfig,
    LinkConfig,
    ListenConfig,
    QueueManagerConfig,
)
from qmgr_config.quantity import Quantity
from qmgr_config.section import Section
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES

FILE = Path(__file__).parents[2] / "config" / "qmgrd.toml"
OPTION = re.compile(r"#(\w+ = .+)")


def sections() -> Iterator[tuple[str, type[Section]]]:
    for name, field in Config.model_fields.items():
        yield name, type(field.default)


def options() -> Iterator[tuple[str, str, FieldInfo]]:
    for section, model in sections():
        for name, field in model.model_fields.items():
            yield section, name, field


def uncommented() -> dict[str, Any]:
    return tomllib.loads(re.sub(rf"(?m)^{OPTION.pattern}$", r"\1", FILE.read_text()))


def paragraph_of(section: str, option: str) -> str:
    """Returns the comment above an option, on one line."""
    text = FILE.read_text().partition(f"[{section}]\n")[2]
    paragraph = next(part for part in text.split("\n\n") if f"\n#{option} = " in f"\n{part}")
    return " ".join(line.removeprefix("# ") for line in paragraph.splitlines())


def test_the_sample_file_changes_nothing() -> None:
    assert Config.model_validate(tomllib.loads(FILE.read_text())) == Config()


def test_the_sample_file_uncommented_is_the_default() -> None:
    assert Config.model_validate(uncommented()) == Config()


def test_the_sample_file_shows_each_option_once() -> None:
    shown = [(section, name) for section, table in uncommented().items() for name in table]
    assert sorted(shown) == sorted((section, name) for section, name, _ in options())
    assert len(OPTION.findall(FILE.read_text())) == len(shown)


@pytest.mark.parametrize(
    ("section", "name", "quantity"),
    [(s, n, q) for s, n, field in options() for q in field.metadata if isinstance(q, Quantity)],
)
def test_the_sample_file_shows_the_bounds(section: str, name: str, quantity: Quantity) -> None:
    assert f"[{quantity.bounds}]" in paragraph_of(section, name)


@pytest.mark.parametrize(("section", "name", "field"), list(options()))
def test_each_option_says_what_it_means_and_in_what_unit(
    section: str, name: str, field: FieldInfo
) -> None:
    description = dict(sections())[section].descriptions()[name]
    assert description.endswith(".")
    assert "\n" not in description
    if name.endswith("_ms"):
        assert ", in ms" in description
    if name.endswith("_bytes"):
        assert "bytes" in description


@pytest.mark.parametrize(("section", "name", "field"), list(options()))
def test_each_number_has_bounds(section: str, name: str, field: FieldInfo) -> None:
    if field.annotation is int:
        assert any(isinstance(item, Quantity) for item in field.metadata)


def test_nothing_changes_after_the_start() -> None:
    config = Config()
    with pytest.raises(ValidationError, match="frozen"):
        config.limits.turn_rows = 1
    assert hash(config) == hash(Config())


@pytest.mark.parametrize("name", ["", "a b", "Ä", "a" * 65, "a/b", "a@b", "a\n"])
def test_a_name_that_the_protocol_cannot_carry_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is not a name"):
        QueueManagerConfig(name=name)


def test_an_empty_data_dir_is_refused() -> None:
    with pytest.raises(ValidationError, match="is not the path of a directory"):
        QueueManagerConfig.model_validate({"data_dir": ""})


def test_longest_whole_message_leaves_64_kib_in_a_frame() -> None:
    limits = LimitsConfig(frame_max_bytes=1_000_000, message_max_bytes=900_000)
    assert limits.whole_max_bytes == 900_000
    limits = LimitsConfig(frame_max_bytes=1_000_000, message_max_bytes=100_000_000)
    assert limits.whole_max_bytes == 1_000_000 - 65_536


def test_half_of_the_smallest_buffers_holds_the_longest_answer() -> None:
    longest_bytes = DELIVER_MAX_BYTES + FRAME_OVERHEAD_BYTES
    small = {"frame_max_bytes": "128 KiB", "message_max_bytes": "32 KiB"}
    with pytest.raises(ValidationError, match=r"buffers_max_bytes\n"):
        LimitsConfig.model_validate(small | {"buffers_max_bytes": 2 * longest_bytes})
    limits = LimitsConfig.model_validate(small | {"buffers_max_bytes": "4 MiB"})
    assert limits.buffers_max_bytes // 2 > longest_bytes


def test_liveness_is_longer_than_the_heartbeat() -> None:
    LimitsConfig(heartbeat_ms=1000, liveness_ms=1001)
    with pytest.raises(ValidationError, match=r"liveness_ms\n.*30 s is not longer than .*\(30 s\)"):
        LimitsConfig(heartbeat_ms=30_000)


def test_the_longest_redial_wait_is_not_below_the_first() -> None:
    LinkConfig(redial_min_ms=1000, redial_max_ms=1000)
    with pytest.raises(ValidationError, match=r"redial_max_ms\n.*999 ms is below"):
        LinkConfig(redial_min_ms=1000, redial_max_ms=999)


def test_addresses_may_be_separated_by_commas() -> None:
    listen = ListenConfig(tcp=("127.0.0.1:0", "[::1]:7470"))
    assert ListenConfig.model_validate({"tcp": "127.0.0.1:0, [::1]:7470"}) == listen
    assert (
        ListenConfig.model_validate({"tcp": ""})
        == ListenConfig.model_validate({"tcp": []})
        == ListenConfig(tcp=())
    )


@pytest.mark.parametrize("tcp", ["0.0.0.0:7470", "[::]:7470", "10.1.2.3:7470", "example.org:7470"])
def test_addresses_that_other_machines_reach_need_tls(tcp: str) -> None:
    with pytest.raises(ValidationError, match=r"name the address in listen\.tls instead"):
        ListenConfig(tcp=(tcp,))
    assert ListenConfig(tls=(tcp,)).tls == (tcp,)


@pytest.mark.parametrize(
    ("tcp", "fault"),
    [("here", "not host:port"), ("127.0.0.1:1," * 16 + "127.0.0.1:1", "the limit is 16")],
)
def test_addresses_are_checked(tcp: str, fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        ListenConfig.model_validate({"tcp": tcp})


def test_the_unix_socket_lies_in_the_data_directory_unless_told_otherwise() -> None:
    here = QueueManagerConfig(data_dir=Path("/data"))
    assert Config(queue_manager=here).unix_path == Path("/data/qmgrd.sock")
    assert Config(queue_manager=here, listen=ListenConfig(unix="/run/q")).unix_path == Path(
        "/run/q"
    )
    assert Config(queue_manager=here, listen=ListenConfig(unix="off")).unix_path is None


def test_the_path_of_the_unix_socket_fits_its_address() -> None:
    Config(listen=ListenConfig(unix="/" + "x" * 106))
    deep = QueueManagerConfig(data_dir=Path("/" + "x" * 100))
    Config(queue_manager=deep, listen=ListenConfig(unix="off"))
    with pytest.raises(ValidationError, match=r"listen.unix: /x+/qmgrd.sock is 112 bytes long"):
        Config(queue_manager=deep)


def test_the_path_of_the_unix_socket_has_no_zero_byte() -> None:
    with pytest.raises(ValidationError, match=r"listen\.unix: .* is not the path of a socket"):
        Config.model_validate({"listen": {"unix": "/tmp/a\0b"}})
