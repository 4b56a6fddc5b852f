"""Message selectors, as JMS has them: a condition on what is known of a message, as text.

    text ──selector_lexer──▶ tokens ──selector_parser──▶ closures ──matches──▶ TRUE or not

A selector is compiled once, into closures, and then asked of many messages. docs/SELECTORS.md says
what the language is. Whatever the text, compiling ends, with a condition or an error; whatever the
message, matching does, in bounded time.
"""

from qmgrd.core.selector_parser import Parsed, parse
from qmgrd.core.selector_pattern import LIKE_TEXT_MAX
from qmgrd.core.selector_value import Value as Value
from qmgrd.core.selector_value import ValueOf

TERM_STEPS = 250  # for a name or a value, with what is made of it


class Selector:
    """A condition that messages are held to."""

    __slots__ = ("_condition", "_like_steps", "_term_steps")

    def __init__(self, parsed: Parsed) -> None:
        self._condition = parsed.condition
        self._term_steps = parsed.terms * TERM_STEPS
        self._like_steps = parsed.like_steps

    def steps(self, message_bytes: int) -> int:
        """Return how long a message of that size takes at worst: about as many nanoseconds."""
        text = min(message_bytes, LIKE_TEXT_MAX)
        return message_bytes + self._term_steps + text * self._like_steps

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
