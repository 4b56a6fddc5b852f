"""The options of TLS of a context, as arguments of connect()."""

import ssl

import pytest

from qmgr_protocol.tls import TlsOptions, explained
from qmgr_tools.cli.failure import Failure
from qmgr_tools.context.file import KeptTls
from qmgr_tools.context.tls import arguments, remedy


def test_options_of_a_context_replace_the_environment() -> None:
    assert arguments(None) == {}
    assert arguments(KeptTls(ca_file="/ca")) == {"tls": TlsOptions(ca_file="/ca")}


def test_option_that_was_damaged_in_the_file_is_named() -> None:
    with pytest.raises(Failure, match=r"cannot use TLS of the context -- .*64 hexadecimal digits"):
        arguments(KeptTls(fingerprint="x"))


@pytest.mark.parametrize(
    ("code", "option"), [(19, "--ca-file FILE"), (62, "--server-name NAME"), (10, "")]
)
def test_remedy_names_the_option_for_the_refused_certificate(code: int, option: str) -> None:
    error = ssl.SSLCertVerificationError("refused")
    error.verify_code, error.verify_message = code, "words of OpenSSL"
    found = remedy("tls:h:1", explained(error))
    assert found.partition(" NAME ")[2] == (option and f"tls:h:1 {option}")
