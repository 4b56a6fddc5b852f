import os
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qmgr_config.load import FILE_MAX_BYTES, ConfigError, load
from qmgr_config.model import Config

# The tests of qmctl apply cover definitions.toml.
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "config").glob("**/*.toml")
    if path.stem != "definitions"
)


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("QMGRD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "qmgrd.toml"


def faults(path: Path | None = None, overrides: dict[str, object] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        load(path, overrides)
    assert str(refusal.value).splitlines() == refusal.value.faults
    return refusal.value.faults


def test_configuration_without_sources_has_the_defaults() -> None:
    assert load() == Config()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_loads(path: Path) -> None:
    assert type(load(path)) is Config


def test_the_later_source_wins_option_by_option(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[limits]\nturn_rows = 1\nturn_bytes = '1 KiB'\nlinks_max = 1\nqueues_max = 1")
    monkeypatch.setenv("QMGRD_LIMITS__TURN_BYTES", "2 KiB")
    monkeypatch.setenv("QMGRD_LIMITS__LINKS_MAX", "2")
    limits = load(file, {"limits.links_max": 3, "limits": {"queues_max": 3}}).limits
    assert (limits.turn_rows, limits.turn_bytes) == (1, 2048)
    assert (limits.links_max, limits.queues_max) == (3, 3)


def test_the_environment_names_every_kind_of_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMGRD_QUEUE_MANAGER__DATA_DIR", "/data")
    monkeypatch.setenv("QMGRD_LISTEN__TCP", "127.0.0.1:1,[::1]:2")
    monkeypatch.setenv("QMGRD_TLS__CLIENT_CERTIFICATES", "verify")
    monkeypatch.setenv("QMGRD_QUEUE_DEFAULTS__DEPTH_MAX", "10_000")
    monkeypatch.setenv("QMGRD_LOG__LEVEL", "debug")
    config = load()
    assert config.queue_manager.data_dir == Path("/data")
    assert config.listen.tcp == ("127.0.0.1:1", "[::1]:2")
    assert config.queue_defaults.depth_max == 10_000
    assert config.log.level == "debug"


def test_the_environment_of_others_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMGRD_PORT", "tcp://10.0.0.1:7470")
    monkeypatch.setenv("QMGRD_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("OTHER__STORE", "1")
    assert load() == Config()


def test_the_callers_overrides_are_left_as_they_are() -> None:
    overrides = {"log": {"level": "debug"}, "log.format": "json"}
    load(overrides=overrides)
    assert overrides == {"log": {"level": "debug"}, "log.format": "json"}


def test_every_fault_is_reported_with_its_path(file: Path) -> None:
    file.write_text("""
        colour = "red"
        producer = 5
        [queue_defaults]
        depth_max = -1
        byte_max = 4
        [limits]
        depth_max = 3
        frame_max_bytes = "128 KiB"
        turn_rows = "many"
        [queue_manager]
        name = "a b"
        [listen]
        unix = 4
        tcp = 5
        [log]
        level = "loud"
    """)
    assert faults(file) == [
        "queue_manager.name: \"a b\" is not a name (1 to 64 letters, digits, '.', '_' and '-')",
        "listen.tcp: 5 is not a list",
        "listen.unix: 4 is not text",
        'limits.turn_rows: "many" is not a whole number',
        "limits.depth_max: unknown key, did you mean queue_defaults.depth_max?",
        "queue_defaults.depth_max: -1 is not positive (1 to 1_000_000_000_000)",
        "queue_defaults.byte_max: unknown key, did you mean queue_defaults.bytes_max?",
        "producer: 5 is not a table",
        "log.level: \"loud\" is not 'debug', 'info', 'warning' or 'error'",
        "colour: unknown key",
    ]


def test_a_fault_of_the_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMGRD_STORE__MAP_BYTES", "huge")
    monkeypatch.setenv("QMGRD_STORE__MAPBYTES", "1")
    monkeypatch.setenv("QMGRD_STOER__MAP_BYTES", "1")
    monkeypatch.setenv("QMGRD_LOG", "{}")
    assert faults() == [
        'store.map_bytes: "huge" is not bytes, as in 4096 or "4 KiB" '
        "(set by QMGRD_STORE__MAP_BYTES)",
        "store.mapbytes: unknown key, did you mean store.map_bytes? (set by QMGRD_STORE__MAPBYTES)",
        'log: "{}" is not a table (set by QMGRD_LOG)',
        "stoer: unknown key, did you mean store? (set by QMGRD_STOER__*)",
    ]


def test_an_override_is_not_blamed_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMGRD_LOG__LEVEL", "debug")
    assert faults(overrides={"log.level": 3, "qeue_manager": {}}) == [
        "log.level: 3 is not 'debug', 'info', 'warning' or 'error'",
        "qeue_manager: unknown key, did you mean queue_manager?",
    ]


def test_an_override_that_is_not_utf8_is_a_fault() -> None:
    overrides = {"queue_manager": {"name": "x\udcff"}, "listen": {"tcp": ["ok:1", "\udcff"]}}
    assert faults(overrides=overrides) == [
        r"queue_manager.name: 'x\udcff' is not UTF-8",
        r"listen.tcp: '\udcff' is not UTF-8",
    ]


def test_a_fault_between_sections_has_a_path_too() -> None:
    assert faults(overrides={"listen.unix": "/" + "x" * 107}) == [
        f"listen.unix: /{'x' * 107} is 108 bytes long; the limit is 107"
    ]


def test_an_unreadable_file_is_a_fault(tmp_path: Path) -> None:
    assert faults(tmp_path / "none") == [
        f"{tmp_path}/none: cannot read the file: No such file or directory"
    ]
    assert faults(tmp_path) == [f"{tmp_path}: cannot read the file: Is a directory"]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            b"[log\n",
            "invalid TOML: Expected ']' at the end of a table declaration (at line 1, column 5)",
        ),
        (b"[log]\n[log]\n", "invalid TOML: Cannot declare ('log',) twice (at line 2, column 5)"),
        (b"# \xff", "invalid UTF-8 at byte 2"),
        (b"#" * (FILE_MAX_BYTES + 1), f"longer than {FILE_MAX_BYTES} bytes"),
        (b"a = " + b"[" * 5000, "invalid TOML: maximum recursion depth exceeded"),
        (b"a = " + b"9" * 5000, "invalid TOML: Exceeds the limit"),
    ],
)
def test_a_file_that_is_no_toml_is_a_fault(file: Path, content: bytes, fault: str) -> None:
    file.write_bytes(content)
    (line,) = faults(file)
    assert line.startswith(f"{file}: {fault}")


def test_a_fault_takes_one_line_whatever_is_in_it(file: Path) -> None:
    file.write_text('"a\\nb" = 1\n[log]\nlevel = "x\\ny"\n[store]\nmap_bytes = 0x' + "f" * 9999)
    assert [line.partition(":")[0] for line in faults(file)] == [
        "store.map_bytes",
        "log.level",
        "a b",
    ]


TOML_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=8,
)
PATHS = [
    f"{s}.{key}"
    for s, field in Config.model_fields.items()
    for key in type(field.default).model_fields
]


@given(
    st.dictionaries(
        st.sampled_from(PATHS) | st.sampled_from(list(Config.model_fields)), TOML_VALUES
    )
)
def test_any_value_loads_or_is_a_fault(overrides: dict[str, object]) -> None:
    try:
        load(overrides=overrides)
    except ConfigError as error:
        paths = [fault.partition(": ")[0] for fault in error.faults]
    else:
        paths = []
    assert {path.partition(".")[0] for path in paths} <= Config.model_fields.keys()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.binary(max_size=200))
def test_any_file_loads_or_is_a_fault(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with suppress(ConfigError):
        load(file)
        tomllib.loads(content.decode())
