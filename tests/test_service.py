"""Tests that systemd accepts config/qmgrd.service, and that this unit permits all operations."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from qmgr_config.load import load
from qmgr_config.model import Config
from qmgr_protocol.tls import TlsFailed
from qmgrd.net.tls_files import check_key
from qmgrd.process.notify import Notifier
from tests.certificates import Certificates

UNIT = Path(__file__).parent.parent / "config" / "qmgrd.service"


def settings() -> dict[str, list[str]]:
    """Returns each key of the unit with its values. The keys of all sections are distinct."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/qmgrd/bin/qmgrd", sys.executable))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True
    )
    assert (found.stdout + found.stderr, found.returncode) == ("", 0)


def with_credentials() -> str:
    """Returns the unit with the lines for credentials, which it shows as comments."""
    return re.sub("^#(LoadCredential=|Environment=)", r"\1", UNIT.read_text(), flags=re.MULTILINE)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_accepts_the_lines_for_credentials(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    text = with_credentials()
    assert text.count("\nLoadCredential=") == 2
    unit.write_text(text.replace("/opt/qmgrd/bin/qmgrd", sys.executable))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True
    )
    assert (found.stdout + found.stderr, found.returncode) == ("", 0)


def test_daemon_reads_a_credential_of_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd writes credentials with mode 0400, and %d is their directory."""
    files = Certificates(tmp_path / "tls")
    key = tmp_path / "qmgrd.key"
    key.write_bytes(Path(files.key()).read_bytes())
    key.chmod(0o400)
    (line,) = re.findall("^Environment=(.*)$", with_credentials(), flags=re.MULTILINE)
    name, _, value = line.partition("=")
    monkeypatch.setenv(name, value.replace("%d", str(tmp_path)))
    monkeypatch.setenv("QMGRD_TLS__CERTIFICATE", files.crt())
    config = load(None, {"listen.tls": ["127.0.0.1:0"]})
    assert config.tls.key == str(key)
    check_key(str(key))


@pytest.mark.skipif(os.geteuid() != 0, reason="Secrets of Kubernetes belong to root.")
@pytest.mark.parametrize(("mode", "is_accepted"), [(0o440, True), (0o400, True), (0o644, False)])
def test_secrets_of_kubernetes_are_links_to_files_of_root(
    tmp_path: Path, mode: int, is_accepted: bool
) -> None:
    """Kubernetes replaces the link ..data if the secret changes. The group is fsGroup."""
    for version, text in (("..1", "old"), ("..2", "new")):
        (tmp_path / version).mkdir()
        file = tmp_path / version / "tls.key"
        file.write_text(text)
        file.chmod(mode)
        os.chown(file, 0, 10_001)
        (tmp_path / "..new").symlink_to(version)
        os.replace(tmp_path / "..new", tmp_path / "..data")
    key = tmp_path / "tls.key"
    key.symlink_to("..data/tls.key")
    assert key.read_text() == "new"
    if is_accepted:
        check_key(str(key))
        return
    with pytest.raises(TlsFailed, match=r"run chmod 640 .*, or set defaultMode: 0440"):
        check_key(str(key))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
def test_systemd_rates_the_unit_as_little_exposed() -> None:
    """systemd's limit for "OK" is 2.0 of 10. Most of the rest is due to the daemon's sockets."""
    subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", UNIT],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def test_service_manager_waits_for_the_daemon_and_watches_it() -> None:
    unit = settings()
    assert unit["Type"] == ["notify"]
    assert unit["NotifyAccess"] == ["main"]
    watchdog_s = int(unit["WatchdogSec"][0].removesuffix("s"))
    environ = {"NOTIFY_SOCKET": "/none", "WATCHDOG_USEC": f"{watchdog_s}000000"}
    with closing(Notifier(environ)) as notifier:
        notifier.ready("", Config().limits.liveness_ms)
    assert notifier.watchdog_ms == watchdog_s * 1000  # The time is long enough for the defaults.


def test_directories_match_the_configuration() -> None:
    unit = settings()
    assert Path("/var/lib", *unit["StateDirectory"]) == Config().queue_manager.data_dir
    assert unit["RuntimeDirectory"] == ["qmgrd"]
    assert int(unit["LimitNOFILE"][0]) > 2 * Config().listen.connections_max


def test_snapshot_may_lower_its_priority() -> None:
    """Otherwise, os.nice would fail, and each snapshot. The last line that names a call applies."""
    filters = settings()["SystemCallFilter"]
    assert filters.index("setpriority") > filters.index("~@privileged @resources")


@pytest.mark.parametrize(
    "file",
    sorted(x for x in UNIT.parent.glob("**/*.toml") if x.stem != "definitions"),
    ids=lambda path: path.name,
)
def test_shipped_configuration_is_valid(file: Path) -> None:
    load(file)
