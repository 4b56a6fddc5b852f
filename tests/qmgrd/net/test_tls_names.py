"""The names in the certificate of a peer."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from qmgr_config.tls import TlsConfig
from qmgr_protocol.tls import end_point
from qmgrd.net.tls_channel import TlsChannel
from qmgrd.net.tls_files import TlsFiles
from qmgrd.net.tls_names import subject_text, tls_of
from tests.certificates import Certificates
from tests.qmgrd.net.test_tls_channel import shake


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    found = Certificates(tmp_path_factory.mktemp("tls"))
    found.issue("shop", "shop.example.org", "urn:qmgr:user:shop", "10.0.0.7")
    return found


def ends(files: Certificates, own: str, **others: str) -> tuple[TlsChannel, TlsChannel]:
    context = TlsFiles(TlsConfig(**files.section(**others))).server
    dialler = TlsChannel(files.options(own).context(), is_server=False, name="localhost")
    listener = TlsChannel(context, is_server=True)
    shake(dialler, listener)
    return dialler, listener


def test_verified_certificate_shows_subject_names_and_fingerprint(files: Certificates) -> None:
    dialler, listener = ends(files, "shop", client_ca=files.ca)
    found = tls_of(listener.tls)
    assert found.subject == "CN=shop.example.org"
    assert found.names == ("dns:shop.example.org", "uri:urn:qmgr:user:shop", "ip:10.0.0.7")
    assert found.fingerprint == files.fingerprint("shop")
    assert found.server_hash == tls_of(dialler.tls).server_hash == end_point(files.der())


def test_certificate_that_was_not_asked_for_shows_nothing(files: Certificates) -> None:
    _, listener = ends(files, "shop")
    found = tls_of(listener.tls)
    assert (found.subject, found.names, found.fingerprint) == ("", (), "")


@pytest.mark.parametrize(
    "parts",
    [
        [(NameOID.COMMON_NAME, "shop"), (NameOID.ORGANIZATION_NAME, "Fruit, Inc.")],
        [(NameOID.DOMAIN_COMPONENT, "org"), (NameOID.USER_ID, 'a+b "c" <d>;')],
        [(NameOID.COMMON_NAME, "#hash"), (NameOID.LOCALITY_NAME, "back\\slash")],
        [(NameOID.COMMON_NAME, " space "), (NameOID.COUNTRY_NAME, "CH")],
    ],
)
def test_subject_has_the_form_of_rfc_4514(parts: list[tuple[x509.ObjectIdentifier, str]]) -> None:
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    long = {
        NameOID.COMMON_NAME: "commonName",
        NameOID.ORGANIZATION_NAME: "organizationName",
        NameOID.DOMAIN_COMPONENT: "domainComponent",
        NameOID.USER_ID: "userId",
        NameOID.LOCALITY_NAME: "localityName",
        NameOID.COUNTRY_NAME: "countryName",
    }
    text = subject_text(tuple(((long[oid], value),) for oid, value in parts))
    assert x509.Name.from_rfc4514_string(text) == name


def test_parts_with_several_attributes_and_unknown_ones_are_kept() -> None:
    assert subject_text(((("commonName", "a"), ("serialNumber", "7")),)) == "CN=a+serialNumber=7"
