"""The TLS options of a client, from its arguments or from the environment."""

import os
from collections.abc import Mapping

from qmgr_client.address import Address
from qmgr_protocol.tls import TlsOptions

CA_FILE, CERTIFICATE_FILE, KEY_FILE = "QMGR_CA_FILE", "QMGR_CERTIFICATE_FILE", "QMGR_KEY_FILE"
SERVER_NAME, FINGERPRINT = "QMGR_SERVER_NAME", "QMGR_FINGERPRINT"


def tls_options(
    address: Address, given: TlsOptions | None, environment: Mapping[str, str] = os.environ
) -> TlsOptions | None:
    """Returns the options for *address*, or None if the address does not use TLS.

    The options of the *environment* apply if none are *given*: QMGR_CA_FILE, QMGR_CERTIFICATE_FILE,
    QMGR_KEY_FILE, QMGR_SERVER_NAME and QMGR_FINGERPRINT.

    Raises:
        ValueError: Options are given for an address without TLS, or an option is not valid.
    """
    if not address.is_tls:
        if given is not None:
            raise ValueError(f"the address {address} does not use TLS: write tls:{address}")
        return None
    if given is not None:
        return given
    names = CA_FILE, CERTIFICATE_FILE, KEY_FILE, SERVER_NAME, FINGERPRINT
    return TlsOptions(*(environment.get(name, "") for name in names))
