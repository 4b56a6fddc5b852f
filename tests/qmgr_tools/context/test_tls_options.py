"""The options of TLS of "qmctl context create"."""

import json
import os
from pathlib import Path

import pytest

from qmgr_tools.context import file as context_file
from tests.certificates import Certificates
from tests.qmgr_tools.conftest import Qmctl
from tests.qmgr_tools.tls.conftest import secure as secure
from tests.qmgr_tools.tls.conftest import secure_files as secure_files

ADDRESS = "tls:nyc.example.org:7471"


def test_options_are_stored_with_absolute_paths(
    qmctl: Qmctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--ca-file", "ca.crt", "--server-name", "nyc", "--fingerprint", "AB" * 32]
    assert qmctl("context", "create", "nyc", ADDRESS, *words).code == 0
    kept = context_file.load(os.environ).tls["nyc"]
    assert kept.ca_file == str(tmp_path / "ca.crt")
    assert kept.server_name == "nyc"
    assert qmctl("context", "create", "nyc", ADDRESS, "--replace").code == 0
    assert context_file.load(os.environ).tls == {}


@pytest.mark.parametrize(
    ("address", "words", "why"),
    [
        ("h:1", ["--ca-file", "ca.crt"], "the address h:1 does not use TLS -- write tls:h:1"),
        (ADDRESS, ["--fingerprint", "ab"], "64 hexadecimal digits"),
        (ADDRESS, ["--key-file", "k"], "has no certificate"),
    ],
)
def test_contradiction_is_refused(qmctl: Qmctl, address: str, words: list[str], why: str) -> None:
    ended = qmctl("context", "create", "nyc", address, *words)
    assert (ended.code, why in ended.err) == (2, True)


@pytest.mark.process
def test_commands_use_the_options_of_their_context(
    qmctl: Qmctl, secure: str, secure_files: Certificates
) -> None:
    qmctl("context", "create", "secure", secure, "--ca-file", secure_files.ca)
    assert qmctl("--context", "secure", "queue", "ls").code == 0
    ended = qmctl("-c", secure, "queue", "ls")
    assert (ended.code, "does not know the CA" in ended.err) == (5, True)
    assert ended.err.endswith(
        f"set QMGR_CA_FILE, or use: qmctl context create NAME {secure} --ca-file FILE\n"
    )
    qmctl("context", "create", "pinned", secure, "--fingerprint", "ab" * 32)
    ended = qmctl("--context", "pinned", "queue", "ls")
    assert (ended.code, ended.err.endswith(f"{secure} --fingerprint SHA256\n")) == (5, True)


@pytest.mark.process
def test_environment_has_the_options_for_other_addresses(
    qmctl: Qmctl, secure: str, secure_files: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMGR_CA_FILE", secure_files.ca)
    assert qmctl("-c", secure, "queue", "ls").code == 0


def test_damaged_options_are_a_damaged_file(qmctl: Qmctl) -> None:
    qmctl("context", "create", "nyc", ADDRESS, "--server-name", "nyc")
    path = context_file.path_of(os.environ)
    assert path is not None
    found = json.loads(path.read_text())
    found["contexts"]["nyc"]["tls"] = {"unknown": 1}
    path.write_text(json.dumps(found))
    ended = qmctl("context", "ls")
    assert (ended.code, "does not contain contexts" in ended.err) == (1, True)
