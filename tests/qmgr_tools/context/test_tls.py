"""The options of TLS of a context, as arguments of connect()."""

import pytest

from qmgr_protocol.tls import TlsOptions
from qmgr_tools.cli.failure import Failure
from qmgr_tools.context.file import KeptTls
from qmgr_tools.context.tls import arguments


def test_options_of_a_context_replace_the_environment() -> None:
    assert arguments(None) == {}
    assert arguments(KeptTls(ca_file="/ca")) == {"tls": TlsOptions(ca_file="/ca")}


def test_option_that_was_damaged_in_the_file_is_named() -> None:
    with pytest.raises(Failure, match=r"cannot use TLS of the context -- .*64 hexadecimal digits"):
        arguments(KeptTls(fingerprint="x"))
