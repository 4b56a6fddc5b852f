"""A daemon that listens with TLS, and its certificates."""

from collections.abc import Iterator

import pytest

from tests.certificates import Certificates
from tests.process.daemon import Daemon


@pytest.fixture(scope="session")
def secure_files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def secure(secure_files: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the daemon."""
    daemon = Daemon(
        tmp_path_factory.mktemp("qm") / "data",
        listen={"tls": ["127.0.0.1:0"]},
        tls=secure_files.section(),
    )
    try:
        yield daemon.start().address
    finally:
        daemon.close()
