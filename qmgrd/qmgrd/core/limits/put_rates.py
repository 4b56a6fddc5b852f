"""Delays the puts of users who put faster than their limits allow.

Each user has a bucket of tokens for messages, and one for bytes. Both fill at the rate of the
limit, up to the tokens of one second. A put is served if no bucket is empty. It takes its tokens
even if there are too few, so a put of any size is served in the end. The next put then waits until
the buckets have tokens again.

    tokens   ██████▁▁▁▁▁▁▁▁██
    puts     3 at once     1     the user waits while the deficit is filled

The intake delays the whole connection, so its order does not change.
"""

_SECOND_MS = 1_000
WAIT_MIN_MS = 10  # time after which a turn serves delayed puts again, so that turns stay few
ENDLESS = 1 << 60  # the tokens of a bucket without a limit


class PutRate:
    """The buckets of one user, shared by all of its connections.

    Tokens are counted in thousandths, so that each millisecond adds a whole number.
    """

    __slots__ = ("_bytes", "_bytes_per_s", "_filled_ms", "_messages", "_messages_per_s")

    def __init__(self) -> None:
        """Starts without limits."""
        self._messages_per_s = self._bytes_per_s = 0
        self._messages = self._bytes = 0
        self._filled_ms = 0

    def set(self, messages_per_s: int, bytes_per_s: int) -> None:
        """Sets the limits. 0 is unlimited. The buckets are full if a limit changed."""
        if (messages_per_s, bytes_per_s) != (self._messages_per_s, self._bytes_per_s):
            self._messages_per_s, self._bytes_per_s = messages_per_s, bytes_per_s
            self._messages, self._bytes = messages_per_s * _SECOND_MS, bytes_per_s * _SECOND_MS

    @property
    def is_limited(self) -> bool:
        """Whether the user has a limit."""
        return bool(self._messages_per_s or self._bytes_per_s)

    def wait_ms(self, now_ms: int) -> int:
        """Returns the time until a put may be served, or 0 if one may be served now."""
        if now_ms != self._filled_ms:
            self._fill(now_ms)
        if self._messages > 0 and self._bytes > 0:
            return 0
        return max(
            _missing_ms(self._messages, self._messages_per_s),
            _missing_ms(self._bytes, self._bytes_per_s),
        )

    @property
    def tokens(self) -> tuple[int, int]:
        """The messages and the bytes for which the buckets have tokens, rounded up."""
        return (
            -(-self._messages // _SECOND_MS) if self._messages_per_s else ENDLESS,
            -(-self._bytes // _SECOND_MS) if self._bytes_per_s else ENDLESS,
        )

    def take(self, messages: int, size_bytes: int) -> None:
        """Takes the tokens of a put that is served."""
        self._messages -= messages * _SECOND_MS
        self._bytes -= size_bytes * _SECOND_MS

    def _fill(self, now_ms: int) -> None:
        passed_ms, self._filled_ms = max(now_ms - self._filled_ms, 0), now_ms
        per_s = self._messages_per_s
        self._messages = min(self._messages + per_s * passed_ms, per_s * _SECOND_MS)
        per_s = self._bytes_per_s
        self._bytes = min(self._bytes + per_s * passed_ms, per_s * _SECOND_MS)


def _missing_ms(tokens: int, per_s: int) -> int:
    """Returns the time until a bucket has a token, rounded up, or 0 if it has one."""
    return -((tokens - 1) // per_s) if per_s and tokens <= 0 else 0


class PutRates:
    """The rates of the connections whose users have a limit, by connection."""

    def __init__(self) -> None:
        self.of: dict[int, PutRate] = {}

    def watch(self, connection: int, rate: PutRate) -> None:
        """Applies *rate* to *connection* from now on."""
        if rate.is_limited:
            self.of[connection] = rate
        else:
            self.of.pop(connection, None)

    def forget(self, connection: int) -> None:
        """Forgets *connection*, which is closed."""
        self.of.pop(connection, None)
