"""Finds the Java that Spark would run, and reports problems with it before Spark starts.

8 to 16           does not start: Spark's classes need 17
17, 21            accepted
18-20, 22-24, 26  refused: Spark 4 is not tested with them and does not claim to support them;
                  24 removed a feature that the login of Hadoop needs
25.0.0 to 25.0.2  refused: wrong data, silently
25.0.3 and later  accepted, by Spark 4.2 and later
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

VERSION_MIN = (17, 0, 0)
TESTED = (17, 21, 25)  # the versions that Spark 4.2 and 4.3 name
# G1 moves pinned objects: wrong data, silently (JDK-8377811).
UNSAFE_MIN, UNSAFE_MAX = (25, 0, 0), (25, 0, 2)
MODULE = "jdk.incubator.vector"  # Spark starts every Java with it; trimmed runtimes lack it.
START_MAX_S = 60
FIX = "install Java 17, 21 or 25 (Debian: apt-get install openjdk-17-jre-headless)"


class JavaUnsuitable(Exception):
    """No Java, or one that Spark cannot use; the text says what to do."""


class Java(NamedTuple):
    """A Java that Spark can use."""

    path: str
    version: tuple[int, int, int]


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Returns the Java that Spark uses: that of JAVA_HOME, else the first in PATH.

    Raises:
        JavaUnsuitable: no Java was found, or it is too old, not one of TESTED, unsafe or trimmed.
    """
    environment = os.environ if environment is None else environment
    path = _path(environment)
    version = parse_version(_run(path, "-version"))
    shown = ".".join(map(str, version))
    if version < VERSION_MIN:
        raise JavaUnsuitable(f"{path} is Java {shown}, Spark needs 17 or later: {FIX}")
    if version[0] not in TESTED:
        raise JavaUnsuitable(
            f"{path} is Java {shown}, Spark is made for {', '.join(map(str, TESTED))}: {FIX}"
        )
    if UNSAFE_MIN <= version <= UNSAFE_MAX:
        raise JavaUnsuitable(
            f"{path} is Java {shown}, which can corrupt data (JDK-8377811): take 25.0.3 or {FIX}"
        )
    if MODULE in _run(path, f"--add-modules={MODULE}", "-version"):
        raise JavaUnsuitable(f"{path} lacks the module {MODULE}, which Spark starts with: {FIX}")
    return Java(path, version)


def _path(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        path = os.path.join(home, "bin", "java")
        if os.access(path, os.X_OK):
            return path
        raise JavaUnsuitable(
            f"JAVA_HOME is {home}, but {path} is not a program: correct or unset it"
        )
    found = shutil.which("java", path=environment.get("PATH", os.defpath))
    if found is None:
        raise JavaUnsuitable(f"no Java: JAVA_HOME is not set and PATH has no java: {FIX}")
    return found


def parse_version(text: str) -> tuple[int, int, int]:
    """Returns the version in the output of `java -version`; 1.8.0 is 8.

    Raises:
        JavaUnsuitable: the output has no version.
    """
    found = re.search(r'version "([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?', text)
    if found is None:
        raise JavaUnsuitable(
            f"`java -version` printed {text.strip()[:200]!r}, which is not a version: {FIX}"
        )
    major, minor, patch = (int(part or 0) for part in found.groups())
    return (minor, patch, 0) if major == 1 else (major, minor, patch)


def _run(path: str, *arguments: str) -> str:
    """Returns Java's output; it names an unknown module."""
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=START_MAX_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnsuitable(f"{path} does not start: {error}: {FIX}") from error
    # A Java that has the module prints a warning on a separate line, and exits with 0.
    return done.stderr + done.stdout if done.returncode or len(arguments) == 1 else ""
