"""Both ends of a login by SCRAM-SHA-256 (RFC 5802, RFC 7677), as bytes in messages.

    client                              server
    Hello.auth_data      user, nonce ─▶
                                     ◀─ AuthChallenge   nonces, salt, iterations
    AuthAnswer           proof       ─▶
                                     ◀─ Welcome.auth_data   proof that the server has the verifier

The password never leaves the client. A server without the verifier cannot make the last proof.

Over TLS, both ends use SCRAM-SHA-256-PLUS: the proofs contain the hash of the server's certificate
(tls-server-end-point, RFC 5929). So a proxy in the middle, which has another certificate, cannot
pass the login on, even if the client trusts that certificate. The proof also covers the choice of
the mechanism, so a proxy cannot remove the binding.

Nonces come from the caller: they must be random, at least 128 bits, printable and without commas.
"""

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from operator import xor

from scramp import ScramException
from scramp.core import ClientStage, ScramClient, ScramMechanism, ServerError

from qmgr_protocol.name import NAME_MAX, is_name
from qmgr_protocol.verifier import ITERATIONS, ITERATIONS_MAX, MECHANISM, Verifier

METHOD = "scram-sha-256"  # value of Hello.auth_method
PLUS_METHOD = "scram-sha-256-plus"  # the same, bound to the certificate of the server
_BINDING = "tls-server-end-point"
_PLUS = f"{MECHANISM}-PLUS"
_MECHANISM = ScramMechanism(MECHANISM)
_KEYS_MAX = 64  # maximum number of passwords and salts whose keys are kept
_MECHANISMS = {METHOD: _MECHANISM, PLUS_METHOD: ScramMechanism(_PLUS)}


class ScramFailed(Exception):
    """A message of the other end is malformed, or its proof is wrong."""


def make_verifier(password: str, salt: bytes, iterations: int = ITERATIONS) -> Verifier:
    """Returns the verifier of *password*. Takes some milliseconds of processor time.

    Args:
        password: The password, normalized as RFC 4013 requires.
        salt: At least 12 random bytes.
        iterations: The number of iterations. More make it harder to guess a stolen verifier.

    Raises:
        ValueError: The password is empty or has characters that are not allowed.
    """
    if not password:
        raise ValueError("the password is empty")
    try:
        return Verifier(*_MECHANISM.make_auth_info(password, iterations, salt))
    except ScramException as error:
        raise ValueError(f"invalid password: {error.args[0]}") from error


class ServerLogin:
    """The server's end of one login."""

    def __init__(
        self,
        verifier_of: Callable[[str], Verifier],
        nonce: str,
        server_hash: bytes = b"",
        method: str = METHOD,
    ) -> None:
        """Begins a login.

        Args:
            verifier_of: A function that returns the verifier of a user. It must also return one
                for a user that does not exist, with a salt that is always the same.
            nonce: The server's nonce.
            server_hash: The hash of the server's certificate, or b"" without TLS. With a hash, the
                server refuses the flag "y" (the client believes that the server cannot bind),
                because a proxy must have removed the binding.
            method: METHOD or PLUS_METHOD, as the hello names it.

        Raises:
            ScramFailed: The method needs a certificate, and there is no hash of one.
        """
        self.user = ""
        self._verifier_of = verifier_of
        if method == PLUS_METHOD and not server_hash:
            raise ScramFailed(f"{method} needs TLS, and this connection does not use it")
        self._server = _MECHANISMS[method].make_server(
            self._found, (_BINDING, server_hash) if server_hash else None, nonce
        )

    def _found(self, user: str) -> Verifier:
        self.user = user
        return self._verifier_of(user)

    def challenge(self, first: bytes) -> bytes:
        """Returns the challenge for a client that sent *first*.

        Raises:
            ScramFailed: *first* is malformed, or names a user that no queue manager can have.
        """
        text = _text(first)
        # scramp normalizes names, which takes 100 ms for some names of a kilobyte. Valid names are
        # short and need no change.
        if any(part.startswith("n=") and not is_name(part[2:]) for part in text.split(",")):
            raise ScramFailed(f"no user has this name: use 1 to {NAME_MAX} of A-Z a-z 0-9 . _ -")
        try:
            self._server.set_client_first(text)
            return _bytes(self._server.get_server_first())
        except ScramException as error:
            raise ScramFailed(str(error)) from error

    def finish(self, final: bytes) -> bytes:
        """Returns the server's proof if the proof in *final* is right.

        Raises:
            ScramFailed: The proof is wrong, or *final* is malformed.
        """
        try:
            self._server.set_client_final(_text(final))
            return _bytes(self._server.get_server_final())
        except ScramException as error:
            is_wrong = error.server_error is ServerError.INVALID_PROOF
            raise ScramFailed("wrong password" if is_wrong else str(error)) from error


class ClientLogin:
    """The client's end of one login."""

    def __init__(
        self,
        user: str,
        password: str,
        nonce: str,
        server_hash: bytes = b"",
        iterations_max: int = ITERATIONS_MAX,
    ) -> None:
        """Begins a login.

        Args:
            user: The user.
            password: The password.
            nonce: The client's nonce.
            server_hash: The hash of the server's certificate, or b"" without TLS. With a hash, the
                login is bound to the certificate.
            iterations_max: The most iterations to compute for a server. 15,000 take about 8 ms.

        Raises:
            ScramFailed: The user or the password is empty, or has characters that are not allowed.
        """
        if not password:
            raise ScramFailed("the password is empty")
        self._values = user, password, nonce
        self._iterations_max = iterations_max
        self.bind(server_hash)

    def bind(self, server_hash: bytes) -> None:
        """Binds the login to the certificate with this hash, unless it is b"".

        Call this method before :meth:`first`.

        Raises:
            ScramFailed: As the constructor.
        """
        user, password, nonce = self._values
        self.method = PLUS_METHOD if server_hash else METHOD  # for the hello
        mechanism, binding = MECHANISM, None
        if server_hash:
            mechanism, binding = _PLUS, (_BINDING, server_hash)
        try:
            self._client = ScramClient([mechanism], user, password, binding, nonce)
        except ScramException as error:
            raise ScramFailed(str(error)) from error

    def first(self) -> bytes:
        """Returns the data for the hello."""
        return _bytes(self._client.get_client_first())

    def answer(self, challenge: bytes) -> bytes:
        """Returns the client's proof.

        Takes some milliseconds of processor time for a new password or salt. The keys are kept, so
        a server that closes each connection does not make the client compute them again.

        Raises:
            ScramFailed: The challenge is malformed, belongs to another login, or asks for more
                iterations than a client should spend on a stranger.
        """
        try:
            self._client.set_server_first(_text(challenge))
            if int(self._client.iterations) > self._iterations_max:
                limit = self._iterations_max
                raise ScramFailed(
                    f"{self._client.iterations} iterations are too many (the limit is {limit})"
                )
            return _bytes(self._final())
        except ScramException as error:
            raise ScramFailed(str(error)) from error

    def _final(self) -> str:
        """Does the same as ScramClient.get_client_final(), with keys that are kept."""
        client = self._client
        key, server_key = _keys(bytes(client.password), bytes(client.salt), int(client.iterations))
        bound = b64encode(client.gs2_header.make_cbind_input(client.cb)).decode()
        final = f"c={bound},r={client.nonce}"
        covered = _bytes(f"{client.client_first_bare},{client.server_first},{final}")
        signature = _mac(hashlib.sha256(key).digest(), covered)
        client.server_signature = _mac(server_key, covered)
        client.stage = ClientStage.get_client_final
        return f"{final},p={b64encode(bytes(map(xor, key, signature))).decode()}"

    def check(self, proof: bytes) -> None:
        """Checks the server's proof.

        Raises:
            ScramFailed: The proof is wrong: the server does not have the user's verifier.
        """
        try:
            self._client.set_server_final(_text(proof))
        except ScramException as error:
            raise ScramFailed(str(error)) from error


@lru_cache(_KEYS_MAX)
def _keys(password: bytes, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """Returns the keys with which the client and the server prove that they know *password*."""
    salted = hashlib.pbkdf2_hmac("sha256", password, salt, iterations)
    return _mac(salted, b"Client Key"), _mac(salted, b"Server Key")


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ScramFailed("not UTF-8") from error


def _bytes(text: str) -> bytes:
    return text.encode()
