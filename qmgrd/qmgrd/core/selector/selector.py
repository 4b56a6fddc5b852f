"""Message selectors, as in JMS: a string with a condition on the properties of a message.

    text ──`lexer.py`──▶ tokens ──`parser.py`──▶ closures ──matches──▶ TRUE or not

A selector is compiled into closures once, and then evaluated for many messages. docs/SELECTORS.md
defines the language. Both compiling a selector and matching a message take a bounded time.
"""

from collections.abc import Iterable
from typing import NamedTuple

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import REASON_TEXT_MAX
from qmgrd.core.selector.parser import Parsed, parse
from qmgrd.core.selector.pattern import LIKE_TEXT_MAX
from qmgrd.core.selector.value import Value as Value
from qmgrd.core.selector.value import ValueOf

TERM_STEPS = 250  # number of steps for a name or a value, and its operator
ENVELOPE_STEPS = 20  # number of steps per byte of an envelope that has only short headers
# Maximum steps of the selector of a subscription, apart from the size of the message. Every
# publication to its topics is examined, and the publisher does not know of it.
SUBSCRIPTION_STEPS_MAX = 1_000_000
REST_STEPS = 1_600  # number of steps for the remainder of a huge number divided by a tiny one


class Cost(NamedTuple):
    """The maximum cost of evaluating selectors, apart from the size of the message."""

    selectors: int  # the number of selectors
    terms: int  # the number of steps of all terms
    orders: int  # the number of order comparisons of two strings
    like: int  # the number of steps of all LIKE per character of a string

    def steps(self, record_bytes: int, envelope_bytes: int) -> int:
        """Returns the maximum number of steps for a message of a given size.

        A step takes about 1 ns.
        """
        texts = envelope_bytes + REASON_TEXT_MAX
        like = min(texts, LIKE_TEXT_MAX) * self.like
        looked_up = record_bytes + envelope_bytes * ENVELOPE_STEPS
        return self.selectors * looked_up + self.terms + texts * self.orders + like

    @property
    def long_text_steps(self) -> int:
        """The number of steps of terms and strings, if strings are as long as LIKE allows."""
        return self.terms + LIKE_TEXT_MAX * (self.orders + self.like)


NO_COST = Cost(0, 0, 0, 0)


def sum_of(costs: Iterable[Cost]) -> Cost:
    """Returns the cost of evaluating all of several selectors."""
    return Cost(*map(sum, zip(NO_COST, *costs, strict=True)))


def highest(costs: Iterable[Cost]) -> Cost:
    """Returns a cost that none of *costs* exceeds."""
    return Cost(*map(max, zip(NO_COST, NO_COST, *costs, strict=True)))


class Selector:
    """A compiled condition."""

    __slots__ = ("_condition", "cost", "length")

    def __init__(self, parsed: Parsed, length: int) -> None:
        """Compiles a *parsed* text of *length* characters."""
        self.length = length
        self._condition = parsed.condition
        terms = parsed.terms * TERM_STEPS + parsed.rests * REST_STEPS
        self.cost = Cost(1, terms, parsed.orders, parsed.like_steps)

    def steps(self, record_bytes: int, envelope_bytes: int) -> int:
        """Returns the maximum number of steps for a message, as :meth:`Cost.steps`."""
        return self.cost.steps(record_bytes, envelope_bytes)

    def matches(self, value_of: ValueOf) -> bool:
        """Returns whether the condition is TRUE for the message whose values *value_of* returns.

        The condition itself raises nothing. Exceptions of *value_of* are not caught.
        """
        return self._condition(value_of) is True


def check_subscription(selector: Selector) -> None:
    """Checks that each publication can be examined in a short time.

    Raises:
        RequestError: SELECTOR_INVALID if *selector* is too costly for a subscription.
    """
    steps = selector.cost.long_text_steps
    if steps > SUBSCRIPTION_STEPS_MAX:
        raise RequestError(
            ErrorCode.SELECTOR_INVALID,
            f"the selector costs up to {steps} steps for each publication, and the limit for a "
            f"subscription is {SUBSCRIPTION_STEPS_MAX}: use fewer LIKE, shorter patterns, or no _ "
            "between two %",
        )


def compile_selector(text: str) -> Selector:
    """Returns the compiled selector *text*.

    Raises:
        RequestError: SELECTOR_INVALID, with the column of the mistake and the expected words.
    """
    return Selector(parse(text), len(text))
