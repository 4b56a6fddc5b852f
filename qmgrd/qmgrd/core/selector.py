"""Message selectors, as JMS has them: a condition on what is known of a message, as text.

    text ──selector_lexer──▶ tokens ──selector_parser──▶ closures ──matches──▶ TRUE or not

A selector is compiled once, into closures, and then asked of many messages. docs/SELECTORS.md says
what the language is. Whatever the text, compiling ends, with a condition or an error; whatever the
message, matching does, in bounded time.
"""

from qmgrd.core.selector_condition import Condition
from qmgrd.core.selector_parser import parse
from qmgrd.core.selector_value import Value as Value
from qmgrd.core.selector_value import ValueOf


class Selector:
    """A condition that messages are held to."""

    __slots__ = ("_condition",)

    def __init__(self, condition: Condition) -> None:
        self._condition = condition

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
