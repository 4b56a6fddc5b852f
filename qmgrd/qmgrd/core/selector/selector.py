"""Message selectors, as in JMS: a string with a condition on the properties of a message.

    text ──`lexer.py`──▶ tokens ──`parser.py`──▶ closures ──matches──▶ TRUE or not

A selector is compiled into closures once, and then evaluated for many messages. docs/SELECTORS.md
defines the language. Both compiling a selector and matching a message take a bounded time.
"""

from qmgr_protocol.messages import REASON_TEXT_MAX
from qmgrd.core.selector.parser import Parsed, parse
from qmgrd.core.selector.pattern import LIKE_TEXT_MAX
from qmgrd.core.selector.value import Value as Value
from qmgrd.core.selector.value import ValueOf

TERM_STEPS = 250  # number of steps for a name or a value, and its operator
ENVELOPE_STEPS = 20  # number of steps per byte of an envelope that has only short headers
REST_STEPS = 1_600  # number of steps for the remainder of a huge number divided by a tiny one


class Selector:
    """A compiled condition."""

    __slots__ = ("_condition", "_like_steps", "_orders", "_term_steps")

    def __init__(self, parsed: Parsed) -> None:
        self._condition = parsed.condition
        self._term_steps = parsed.terms * TERM_STEPS + parsed.rests * REST_STEPS
        self._orders = parsed.orders
        self._like_steps = parsed.like_steps

    def steps(self, record_bytes: int, envelope_bytes: int) -> int:
        """Returns the maximum number of steps for a message of a given size.

        A step takes about 1 ns.
        """
        texts = envelope_bytes + REASON_TEXT_MAX
        like = min(texts, LIKE_TEXT_MAX) * self._like_steps
        looked_up = record_bytes + envelope_bytes * ENVELOPE_STEPS
        return looked_up + self._term_steps + texts * self._orders + like

    def matches(self, value_of: ValueOf) -> bool:
        """Returns whether the condition is TRUE for the message whose values *value_of* returns.

        The condition itself raises nothing. Exceptions of *value_of* are not caught.
        """
        return self._condition(value_of) is True


def compile_selector(text: str) -> Selector:
    """Returns the compiled selector *text*.

    Raises:
        RequestError: SELECTOR_INVALID, with the column of the mistake and the expected words.
    """
    return Selector(parse(text))
