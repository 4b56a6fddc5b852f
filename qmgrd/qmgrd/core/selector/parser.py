"""Parses the words of a message selector into a condition, by recursive descent.

    condition := conjunct {OR conjunct}
    conjunct  := negation {AND negation}
    negation  := NOT negation | predicate
    predicate := sum [ (= | <> | != | < | <= | > | >=) sum
                     | [NOT] BETWEEN sum AND sum
                     | [NOT] IN ( element {, element} )
                     | [NOT] LIKE text [ESCAPE text]
                     | IS [NOT] NULL ]
    element   := text | [+ | -] number | name
    sum       := product {(+ | -) product}
    product   := factor {(* | / | %) factor}
    factor    := (+ | -) factor | literal | name | ( condition )

Each rule returns a part and its kind. Therefore, the parser can refuse conditions that can never be
true, such as a sum with a string. DEPTH_MAX limits the recursion. TERMS_MAX limits the nesting of
the result, because a sum of n numbers is a closure that is nested n times.
"""

from collections.abc import Callable
from typing import NamedTuple, cast

from qmgr_protocol.errors import RequestError
from qmgrd.core.selector import condition as conditions
from qmgrd.core.selector import value as values
from qmgrd.core.selector.condition import Condition
from qmgrd.core.selector.lexer import END, NAME, NUMBER, TEXT, Token, selector_error, tokenize
from qmgrd.core.selector.pattern import PatternInvalid, like, steps
from qmgrd.core.selector.value import Expression

DEPTH_MAX = 32  # maximum depth of nested parentheses, NOT and signs
TERMS_MAX = 256  # maximum number of names and values, except values after IN
IN_MAX = 256  # maximum number of values after one IN

# Kinds of parts, in addition to NAME, NUMBER and TEXT.
BOOLEAN, CONDITION = "boolean", "condition"
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


class Part(NamedTuple):
    """The result of a rule."""

    kind: str
    token: Token  # the first word of the part
    run: Expression  # the function that evaluates the part; a condition returns a boolean or NULL

    def __str__(self) -> str:
        if self.kind in (NUMBER, CONDITION) and self.token.kind != NUMBER:
            return f"a {self.kind}"
        return str(self.token)


class Parsed(NamedTuple):
    """A condition and its cost."""

    condition: Condition
    terms: int  # the number of names and values, except values after IN
    like_steps: int  # the number of steps of all LIKE per character of a string
    # The number of order comparisons of two names, whose values may both be long strings.
    orders: int
    rests: int  # the number of remainders


def parse(text: str) -> Parsed:
    """Returns the condition in *text*.

    Raises:
        RequestError: SELECTOR_INVALID, with the column of the mistake and the expected words.
    """
    parser = _Parser(tokenize(text))
    condition = _condition(parser.condition())
    if parser.next.kind == ")":
        raise selector_error(parser.next.column, "')' has no matching '('")
    if parser.next.kind != END:
        raise parser.unexpected_token_error("AND, OR or the end")
    return Parsed(condition, parser.terms, parser.like_steps, parser.orders, parser.rests)


def _condition(part: Part) -> Condition:
    """Returns *part* as a condition. Raises if *part* is a number or a string."""
    if part.kind in (NUMBER, TEXT):
        raise selector_error(part.token.column, f"expected a condition, found {part}")
    return cast(Condition, part.run) if part.kind == CONDITION else conditions.true(part.run)


def _need(part: Part, why: str, *kinds: str) -> Expression:
    """Returns the expression of *part*. Raises unless *part* is a name or of one of *kinds*."""
    if part.kind not in (*kinds, NAME):
        raise selector_error(part.token.column, f"{why}, found {part}")
    return part.run


def _need_like(left: Part, right: Part, sign: str, column: int) -> None:
    """Raises if the types of *left* and *right* are known and different."""
    if left.kind != right.kind and NAME not in (left.kind, right.kind):
        raise selector_error(
            column, f"'{sign}' compares {left} with {right}, which has another type"
        )


class _Parser:
    """The state of parsing. The last token is END. The parser never moves past END."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.terms = 0
        self.like_steps = 0
        self.orders = 0
        self.rests = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    def unexpected_token_error(self, wanted: str) -> RequestError:
        """Returns the error for a next word that is not *wanted*."""
        before = self._tokens[self._at - 1] if self._at else None
        if before is not None and before.kind == self.next.kind == "=":
            return selector_error(before.column, "'==' is not an operator; write '='")
        after = f" after {before}" if before else ""
        return selector_error(self.next.column, f"expected {wanted}{after}, found {self.next}")

    def _take(self, *kinds: str) -> Token | None:
        """Returns the next word and moves past it if it is one of *kinds*. Otherwise None."""
        token = self.next
        if token.kind not in kinds:
            return None
        self._at += 1
        return token

    def _expect(self, kind: str, wanted: str) -> Token:
        token = self._take(kind)
        if token is None:
            raise self.unexpected_token_error(wanted)
        return token

    def _inside(self, token: Token, rule: Callable[[], Part]) -> Part:
        """Returns the result of *rule* inside *token*, one level deeper."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise selector_error(
                token.column, f"{token} exceeds the limit of {DEPTH_MAX} nested levels"
            )
        part = rule()
        self._depth -= 1
        return part

    def condition(self) -> Part:
        """Parses one or more parts joined by OR."""
        return self._joined("OR", self._conjunct, conditions.some)

    def _conjunct(self) -> Part:
        return self._joined("AND", self._negation, conditions.every)

    def _joined(
        self, word: str, rule: Callable[[], Part], join: Callable[[list[Condition]], Condition]
    ) -> Part:
        part = rule()
        if self.next.kind != word:
            return part
        found = [_condition(part)]
        while self._take(word):
            found.append(_condition(rule()))
        return Part(CONDITION, part.token, join(found))

    def _negation(self) -> Part:
        token = self._take("NOT")
        if token is None:
            return self._predicate()
        part = self._inside(token, self._negation)
        return Part(CONDITION, token, conditions.opposite(_condition(part)))

    def _predicate(self) -> Part:
        part = self._sum()
        if sign := self._take(*COMPARISONS):
            return Part(CONDITION, part.token, self._comparison(part, sign))
        if self._take("IS"):
            return Part(CONDITION, part.token, self._is(part))
        is_not = self._take("NOT")
        if self._take("BETWEEN"):
            return Part(CONDITION, part.token, self._between(part, is_not is not None))
        if self._take("IN"):
            condition = self._in(part)
        elif self._take("LIKE"):
            condition = self._like(part)
        elif is_not:
            raise self.unexpected_token_error("BETWEEN, IN or LIKE")
        else:
            return part
        return Part(CONDITION, part.token, conditions.opposite(condition) if is_not else condition)

    def _comparison(self, left: Part, sign: Token) -> Condition:
        right = self._sum()
        for part in (left, right):
            if sign.kind in ("=", "<>"):
                _need(part, f"'{sign.text}' compares values", NUMBER, TEXT, BOOLEAN)
            else:
                _need(part, f"'{sign.text}' compares numbers or strings", NUMBER, TEXT)
        _need_like(left, right, sign.text, sign.column)
        if sign.kind not in ("=", "<>"):
            self._count_order(left, right)
        return conditions.comparison(sign.kind, left.run, right.run)

    def _count_order(self, left: Part, right: Part) -> None:
        self.orders += left.kind == right.kind == NAME

    def _is(self, part: Part) -> Condition:
        is_not = self._take("NOT")
        self._expect("NULL", "NULL" if is_not else "NULL or NOT NULL")
        absent = conditions.absent(self._name(part, "IS NULL"))
        return conditions.opposite(absent) if is_not else absent

    def _name(self, part: Part, what: str) -> Expression:
        if part.kind != NAME:
            raise selector_error(part.token.column, f"{what} requires a name, found {part}")
        return part.run

    def _between(self, part: Part, is_not: bool) -> Condition:
        low = self._sum()
        self._expect("AND", "AND and a second bound")
        high = self._sum()
        value, from_, to = (
            _need(found, "BETWEEN compares numbers or strings", NUMBER, TEXT)
            for found in (part, low, high)
        )
        for one, other in ((part, low), (part, high), (low, high)):
            _need_like(one, other, "BETWEEN", other.token.column)
            self._count_order(one, other)
        return (conditions.not_between if is_not else conditions.between)(value, from_, to)

    def _in(self, part: Part) -> Condition:
        value = _need(part, "IN requires a number or a string", NUMBER, TEXT)
        texts: set[str] = set()
        numbers: set[int | float] = set()
        facts: list[Expression] = []
        self._expect("(", "'('")
        for count in range(1, IN_MAX + 2):
            if count > IN_MAX:
                raise selector_error(self.next.column, f"IN has more than {IN_MAX} values")
            column, found = self.next.column, self._element()
            _need_like(part, found, "IN", column)
            if found.kind == NAME:
                facts.append(found.run)
            elif found.kind == TEXT:
                texts.add(str(found.token.value))
            else:
                numbers.add(cast(int | float, found.token.value))
            if not self._take(","):
                break
        self._expect(")", "',' or ')'")
        return conditions.within(value, frozenset(texts), frozenset(numbers), facts)

    def _element(self) -> Part:
        """Parses a name, a string or a number. The token of a number includes its sign."""
        sign = self._take("+", "-")
        token = self._take(NUMBER) if sign else self._take(NUMBER, TEXT, NAME)
        if token is None:
            raise self.unexpected_token_error(
                "a number" if sign else "a string, a number or a name"
            )
        if token.kind == NAME:
            return self._fact(token)
        if sign and not isinstance(token.value, str):
            value = -token.value if sign.kind == "-" else token.value
            token = Token(NUMBER, sign.text + token.text, sign.column, value)
        return Part(token.kind, token, values.literal(token.value))

    def _like(self, part: Part) -> Condition:
        value = self._name(part, "LIKE")
        pattern, escape = self._expect(TEXT, "a string"), ""
        self._count(pattern)
        if self._take("ESCAPE"):
            token = self._expect(TEXT, "a string of one character")
            escape = str(token.value)
            if len(escape) != 1:
                raise selector_error(token.column, f"ESCAPE requires one character, found {token}")
        try:
            self.like_steps += steps(str(pattern.value), escape)
            return like(value, str(pattern.value), escape)
        except PatternInvalid as error:
            raise selector_error(pattern.column, str(error)) from None

    def _sum(self) -> Part:
        return self._calculated(("+", "-"), self._product)

    def _product(self) -> Part:
        return self._calculated(("*", "/", "%"), self._factor)

    def _calculated(self, signs: tuple[str, ...], rule: Callable[[], Part]) -> Part:
        part = rule()
        while sign := self._take(*signs):
            one, other = (
                _need(found, f"'{sign.kind}' requires numbers", NUMBER) for found in (part, rule())
            )
            self.rests += sign.kind == "%"
            part = Part(NUMBER, part.token, values.calculation(sign.kind, one, other))
        return part

    def _factor(self) -> Part:
        if sign := self._take("+", "-"):
            part = self._inside(sign, self._factor)
            operand = _need(part, f"'{sign.kind}' requires numbers", NUMBER)
            signed = values.negative if sign.kind == "-" else values.positive
            return Part(NUMBER, sign, signed(operand))
        if opening := self._take("("):
            part = self._inside(opening, self.condition)
            self._expect(")", f"')' for the '(' in column {opening.column}")
            return part._replace(token=opening) if part.kind == CONDITION else part
        return self._term()

    def _term(self) -> Part:
        token = self._take(NAME, NUMBER, TEXT, "TRUE", "FALSE")
        if token is None and self.next.kind == "NULL":
            raise selector_error(self.next.column, "NULL is valid only after IS or IS NOT")
        if token is None:
            raise self.unexpected_token_error("a value" if self._at else "a condition")
        if token.kind == NAME:
            return self._fact(token)
        self._count(token)
        if token.kind in ("TRUE", "FALSE"):
            return Part(BOOLEAN, token, values.literal(token.kind == "TRUE"))
        return Part(token.kind, token, values.literal(token.value))

    def _fact(self, token: Token) -> Part:
        """Returns the part for the name in *token*."""
        self._count(token)
        name = str(token.value)
        return Part(NAME, token, values.fact(name))

    def _count(self, token: Token) -> None:
        self.terms += 1
        if self.terms > TERMS_MAX:
            raise selector_error(token.column, f"more than {TERMS_MAX} names and values")
