"""Makes records of TLS 1.3 that no library sends, with the keys of a real connection."""

import ssl
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

ALERT, HANDSHAKE, DATA = 21, 22, 23
CIPHER = "TLS_AES_256_GCM_SHA384"  # OpenSSL prefers it
HALF_KEY_UPDATE = bytes.fromhex("18000001")  # the header, without the one byte that follows
KEY_UPDATE = HALF_KEY_UPDATE + b"\1"  # asks for an answer
CLOSE = bytes.fromhex("0100")


class Forger:
    """The dialling end of a connection, after its handshake and before its first record."""

    def __init__(self, log: Path, tls: ssl.SSLObject) -> None:
        """Reads the keys from *log*, which is the ``keylog_filename`` of the context of *tls*."""
        cipher = tls.cipher()
        assert cipher is not None
        assert cipher[0] == CIPHER
        (line,) = [x for x in log.read_text().splitlines() if x.startswith("CLIENT_TRAFFIC_SEC")]
        self._use(bytes.fromhex(line.split()[2]))

    def _use(self, secret: bytes) -> None:
        self._secret, self._sent = secret, 0
        self._key = AESGCM(self._expanded(b"key", 32))
        self._iv = int.from_bytes(self._expanded(b"iv", 12), "big")

    def _expanded(self, label: bytes, size: int) -> bytes:
        """RFC 8446, section 7.1: HKDF-Expand-Label with an empty context."""
        label = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
        return HKDFExpand(hashes.SHA384(), size, info).derive(self._secret)

    def record(self, kind: int, content: bytes) -> bytes:
        """Returns the next record. A change of keys is used from the next record on."""
        inner = content + bytes([kind])
        head = bytes([DATA, 3, 3]) + (len(inner) + 16).to_bytes(2, "big")
        nonce = (self._iv ^ self._sent).to_bytes(12, "big")
        self._sent += 1
        found = head + self._key.encrypt(nonce, inner, head)
        if content == KEY_UPDATE:
            self._use(self._expanded(b"traffic upd", 48))
        return found
