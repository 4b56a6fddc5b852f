"""The CA: what it signs is valid for OpenSSL, and its keys are private."""

import ipaddress
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from qmgr_tools.tls.authority import CA_FILE, CA_KEY_FILE, Authority, general_name, write

NOW = datetime.now(UTC)


def loaded(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_certificate_is_valid_for_each_of_its_names() -> None:
    authority = Authority.create("a CA", NOW)
    issued = authority.issue(["nyc.example.org", "10.0.0.5"], NOW, 30)
    store = Store([loaded(authority.pem)])
    for subject in (
        x509.DNSName("nyc.example.org"),
        x509.IPAddress(ipaddress.ip_address("10.0.0.5")),
    ):
        verifier = PolicyBuilder().store(store).time(NOW).build_server_verifier(subject)
        assert len(verifier.verify(loaded(issued.certificate), [])) == 2
    client = PolicyBuilder().store(store).time(NOW).build_client_verifier()
    assert client.verify(loaded(issued.certificate), []).chain


def test_certificate_ends_after_its_days() -> None:
    issued = Authority.create("a CA", NOW).issue(["a"], NOW, 30)
    assert (loaded(issued.certificate).not_valid_after_utc - NOW).days in (29, 30)


def test_saved_authority_can_be_loaded_and_signs_on(tmp_path: Path) -> None:
    Authority.create("a CA", NOW).save(tmp_path)
    assert stat.S_IMODE((tmp_path / CA_KEY_FILE).stat().st_mode) == 0o600
    again = Authority.load(tmp_path)
    issued = again.issue(["b"], NOW, 1)
    loaded(issued.certificate).verify_directly_issued_by(loaded((tmp_path / CA_FILE).read_bytes()))


def test_key_of_another_authority_is_refused(tmp_path: Path) -> None:
    Authority.create("a CA", NOW).save(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    Authority.create("another CA", NOW).save(other)
    (other / CA_KEY_FILE).replace(tmp_path / CA_KEY_FILE)
    with pytest.raises(ValueError, match=r"ca\.key is not the key of ca\.crt"):
        Authority.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nyc.example.org", x509.DNSName),
        ("10.0.0.5", x509.IPAddress),
        ("::1", x509.IPAddress),
        ("urn:qmgr:user:shop", x509.UniformResourceIdentifier),
    ],
)
def test_kind_of_a_name_is_recognized(name: str, kind: type[x509.GeneralName]) -> None:
    assert isinstance(general_name(name), kind)


def test_name_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ASCII|A-label"):
        general_name("zürich")


def test_file_is_replaced_as_a_whole_with_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.key"
    file.write_text("old")
    file.chmod(0o644)
    (tmp_path / "a.key.new").write_text("the rest of an interrupted write")
    write(file, b"new", mode=0o600)
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["a.key"]
