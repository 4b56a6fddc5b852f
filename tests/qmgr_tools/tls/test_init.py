"""qmctl tls init."""

import stat
from pathlib import Path

import pytest

from qmgr_config.tls import TlsConfig
from qmgrd.net.tls_files import TlsFiles
from tests.qmgr_tools.conftest import Qmctl


def test_first_certificate_makes_the_ca_and_later_ones_use_it(qmctl: Qmctl, tmp_path: Path) -> None:
    directory = tmp_path / "tls"
    first = qmctl("tls", "init", str(directory), "nyc.example.org", "10.0.0.5")
    assert first.code == 0
    assert first.out.startswith(f"created a CA: {directory}/ca.crt; keep {directory}/ca.key secret")
    ca = (directory / "ca.crt").read_bytes()
    second = qmctl("tls", "init", str(directory), "ewr", "-o", "json").json
    assert (second["created_ca"], second["names"]) == (False, ["ewr"])
    assert (directory / "ca.crt").read_bytes() == ca
    modes = {x.name: stat.S_IMODE(x.stat().st_mode) for x in directory.iterdir()}
    assert modes == {
        "ca.crt": 0o644,
        "ca.key": 0o600,
        "nyc.example.org.crt": 0o644,
        "nyc.example.org.key": 0o600,
        "ewr.crt": 0o644,
        "ewr.key": 0o600,
    }


def test_daemon_accepts_the_files_and_renews_them(qmctl: Qmctl, tmp_path: Path) -> None:
    row = qmctl("tls", "init", str(tmp_path), "nyc", "--file", "server", "-o", "json").json
    files = TlsFiles(TlsConfig(certificate=row["certificate"], key=row["key"], client_ca=row["ca"]))
    (found,) = files.certificates
    assert (found.fingerprint, found.ends.isoformat()) == (row["fingerprint"], row["ends"])
    again = qmctl("tls", "init", str(tmp_path), "nyc", "--file", "server", "-o", "json").json
    assert files.refresh()
    assert files.certificates[0].fingerprint == again["fingerprint"] != row["fingerprint"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["a/b"], "'a/b' cannot be the name of its files -- use --file NAME"),
        (["ca"], "'ca' cannot be the name of its files"),
        (["urn:qmgr:user:shop", "--file", ".."], "cannot be the name of its files"),
        (["zürich", "--file", "z"], "cannot make a certificate for zürich"),
        ([str(n) for n in range(101)], "101 names are given; the limit is 100"),
        (["nyc", "--days", "0"], "--days"),
    ],
)
def test_invalid_name_is_refused(qmctl: Qmctl, tmp_path: Path, words: list[str], why: str) -> None:
    ended = qmctl("tls", "init", str(tmp_path / "tls"), *words)
    assert ended.code == 2
    assert why in ended.err


def test_directory_that_cannot_be_written_is_named(qmctl: Qmctl, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = qmctl("tls", "init", str(tmp_path / "file"), "nyc")
    assert (ended.code, f"{tmp_path}/file: " in ended.err) == (1, True)


def test_ca_without_its_key_is_an_error_and_is_kept(qmctl: Qmctl, tmp_path: Path) -> None:
    qmctl("tls", "init", str(tmp_path), "nyc")
    ca = (tmp_path / "ca.crt").read_bytes()
    (tmp_path / "ca.key").unlink()
    ended = qmctl("tls", "init", str(tmp_path), "ewr")
    assert (ended.code, "ca.key: No such file" in ended.err) == (1, True)
    assert (tmp_path / "ca.crt").read_bytes() == ca
