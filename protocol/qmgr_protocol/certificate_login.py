"""The login of a dialling end that shows a certificate: SASL EXTERNAL (RFC 4422, appendix A)."""

EXTERNAL = "external"


class CertificateLogin:
    """A login by certificate, for one connection. TLS proves who both ends are."""

    method = EXTERNAL

    def bind(self, server_hash: bytes) -> None:
        """Does nothing: the certificate itself binds the login to the connection."""

    def first(self) -> bytes:
        """Returns the data for the hello: none."""
        return b""

    def answer(self, challenge: bytes) -> bytes:
        """Refuses a challenge.

        Raises:
            ValueError: Always.
        """
        raise ValueError("it asks for a password, but this end logs in by its certificate")

    def check(self, proof: bytes) -> None:
        """Accepts a welcome, because TLS has checked the certificate of the queue manager."""
