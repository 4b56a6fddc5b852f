"""Finds the Java that Spark would run, and reports problems before Spark starts.

8 to 16           do not start: Spark's classes need 17
17, 21            accepted
18-20, 22-24, 26  refused: Spark 4 is not tested with these versions and does not support them;
                  24 removed a feature that the login of Hadoop needs
25.0.0 to 25.0.2  refused: they silently return wrong data
25.0.3 and later  accepted, by Spark 4.2 and later
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

VERSION_MIN = (17, 0, 0)
TESTED = (17, 21, 25)  # versions that Spark 4.2 and 4.3 support
# The garbage collector G1 moves pinned objects, which silently corrupts data (JDK-8377811).
UNSAFE_MIN, UNSAFE_MAX = (25, 0, 0), (25, 0, 2)
# Spark starts every Java with this module. Trimmed runtimes lack the module.
MODULE = "jdk.incubator.vector"
START_MAX_S = 60
FIX = "install Java 17, 21 or 25 (Debian: apt-get install openjdk-17-jre-headless)"


class JavaUnsuitable(Exception):
    """Java is missing, or Spark cannot use it. The text states the fix."""


class Java(NamedTuple):
    """A Java that Spark can use."""

    path: str
    version: tuple[int, int, int]


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Returns the Java that Spark uses, from JAVA_HOME or, by default, from PATH.

    Raises:
        JavaUnsuitable: No Java was found, or the Java is too old, not one of TESTED, unsafe or
            trimmed.
    """
    environment = os.environ if environment is None else environment
    path = _path(environment)
    version = parse_version(_run(path, "-version"))
    shown = ".".join(map(str, version))
    if version < VERSION_MIN:
        raise JavaUnsuitable(f"{path} is Java {shown}, but Spark needs 17 or later: {FIX}")
    if version[0] not in TESTED:
        raise JavaUnsuitable(
            f"{path} is Java {shown}, but Spark supports {', '.join(map(str, TESTED))}: {FIX}"
        )
    if UNSAFE_MIN <= version <= UNSAFE_MAX:
        raise JavaUnsuitable(
            f"{path} is Java {shown}, which can corrupt data (JDK-8377811): use 25.0.3 or {FIX}"
        )
    if MODULE in _run(path, f"--add-modules={MODULE}", "-version"):
        raise JavaUnsuitable(f"{path} lacks the module {MODULE}, which Spark needs to start: {FIX}")
    return Java(path, version)


def _path(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        path = os.path.join(home, "bin", "java")
        if os.access(path, os.X_OK):
            return path
        raise JavaUnsuitable(
            f"JAVA_HOME is {home}, but {path} is not a program: correct JAVA_HOME or unset it"
        )
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is None:
        raise JavaUnsuitable(f"Java not found: JAVA_HOME is not set and PATH has no java: {FIX}")
    return found


def parse_version(text: str) -> tuple[int, int, int]:
    """Returns the version in the output of `java -version`. The output 1.8.0 means version 8.

    Raises:
        JavaUnsuitable: The output has no version.
    """
    found = re.search(r'version "([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?', text)
    if found is None:
        raise JavaUnsuitable(
            f"`java -version` printed {text.strip()[:200]!r}, which is not a valid version: {FIX}"
        )
    major, minor, patch = (int(part or 0) for part in found.groups())
    return (minor, patch, 0) if major == 1 else (major, minor, patch)


def _run(path: str, *arguments: str) -> str:
    """Returns the output of Java, which names an unknown module."""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=START_MAX_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnsuitable(f"{path} does not start: {error}: {FIX}") from error
    # If Java has the module, it prints only a warning on a separate line, and exits with code 0.
    return done.stderr + done.stdout if done.returncode or len(arguments) == 1 else ""
