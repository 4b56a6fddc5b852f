"""Message selectors, as JMS has them: a condition on what is known of a message, as text.

    text ──selector_lexer──▶ tokens ──selector_parser──▶ closures ──matches──▶ TRUE or not

A selector is compiled once, into closures, and then asked of many messages. docs/SELECTORS.md says
what the language is. Whatever the text, compiling ends, with a condition or an error; whatever the
message, matching does, in bounded time.
"""

from qmgr_protocol.messages import REASON_TEXT_MAX
from qmgrd.core.selector.parser import Parsed, parse
from qmgrd.core.selector.pattern import LIKE_TEXT_MAX
from qmgrd.core.selector.value import Value as Value
from qmgrd.core.selector.value import ValueOf

TERM_STEPS = 250  # for a name or a value, with what is made of it
ENVELOPE_STEPS = 20  # for a byte of the envelope, where all it has are short headers
REST_STEPS = 1_600  # for a rest, where one number is huge and the other one is tiny


class Selector:
    """A condition that messages are held to."""

    __slots__ = ("_condition", "_like_steps", "_orders", "_term_steps")

    def __init__(self, parsed: Parsed) -> None:
        self._condition = parsed.condition
        self._term_steps = parsed.terms * TERM_STEPS + parsed.rests * REST_STEPS
        self._orders = parsed.orders
        self._like_steps = parsed.like_steps

    def steps(self, record_bytes: int, envelope_bytes: int) -> int:
        """Return how long a message of that size takes at worst: about as many nanoseconds."""
        texts = envelope_bytes + REASON_TEXT_MAX
        like = min(texts, LIKE_TEXT_MAX) * self._like_steps
        looked_up = record_bytes + envelope_bytes * ENVELOPE_STEPS
        return looked_up + self._term_steps + texts * self._orders + like

    def matches(self, value_of: ValueOf) -> bool:
        """Return whether the condition is TRUE where names stand for what *value_of* returns.

        Raises nothing of its own, only what *value_of* does.
        """
        return self._condition(value_of) is True


def compile_selector(text: str) -> Selector:
    """Return *text* as a selector.

    Raises:
        RequestError: SELECTOR_INVALID, with the column where it is wrong and what was expected.
    """
    return Selector(parse(text))
