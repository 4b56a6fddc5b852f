"""Message selectors, as in JMS: a condition on the facts of a message, as text.

    text ──selector_lexer──▶ tokens ──selector_parser──▶ closures ──matches──▶ TRUE or not

A selector is compiled once, into closures, and then evaluated for many messages. docs/SELECTORS.md
defines the language. Compiling any text ends with a condition or an error, and matching any message
ends, both in bounded time.
"""

from qmgr_protocol.messages import REASON_TEXT_MAX
from qmgrd.core.selector.parser import Parsed, parse
from qmgrd.core.selector.pattern import LIKE_TEXT_MAX
from qmgrd.core.selector.value import Value as Value
from qmgrd.core.selector.value import ValueOf

TERM_STEPS = 250  # for a name or a value, and its operator
ENVELOPE_STEPS = 20  # per byte of the envelope, if it has only short headers
REST_STEPS = 1_600  # for a remainder of a huge and a tiny number


class Selector:
    """A compiled condition."""

    __slots__ = ("_condition", "_like_steps", "_orders", "_term_steps")

    def __init__(self, parsed: Parsed) -> None:
        self._condition = parsed.condition
        self._term_steps = parsed.terms * TERM_STEPS + parsed.rests * REST_STEPS
        self._orders = parsed.orders
        self._like_steps = parsed.like_steps

    def steps(self, record_bytes: int, envelope_bytes: int) -> int:
        """Returns the most steps for a message of that size: about as many nanoseconds."""
        texts = envelope_bytes + REASON_TEXT_MAX
        like = min(texts, LIKE_TEXT_MAX) * self._like_steps
        looked_up = record_bytes + envelope_bytes * ENVELOPE_STEPS
        return looked_up + self._term_steps + texts * self._orders + like

    def matches(self, value_of: ValueOf) -> bool:
        """Returns whether the condition is TRUE with the values that *value_of* returns for names.

        Raises only what *value_of* raises.
        """
        return self._condition(value_of) is True


def compile_selector(text: str) -> Selector:
    """Returns the compiled selector *text*.

    Raises:
        RequestError: SELECTOR_INVALID, with the column where it is wrong and what was expected.
    """
    return Selector(parse(text))
