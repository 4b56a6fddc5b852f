"""Applies damaged selectors and random strings to damaged messages."""

from random import Random

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Fields, Uid, encode
from qmgrd.core.queue.facts import BUILT_IN, MessageFacts
from qmgrd.core.selector.lexer import KEYWORDS, TEXT_MAX
from qmgrd.core.selector.selector import Selector, compile_selector

SELECTORS_A_ROUND = 40
_SOUND = (
    "priority > 5 AND carrier = 'UA'",
    'NOT (delay + 5 * -2 < .5e1 / stops OR late) AND "content-type" IS NOT NULL',
    "carrier NOT IN ('AA', 'DL', -1) OR tail LIKE 'N%5!_' ESCAPE '!' AND size BETWEEN 1 AND 1e3",
    "5 % delay IN (stops, -2.5) AND carrier BETWEEN 'A' AND tail OR tail != carrier AND tail > 'N'",
)
_WORDS: tuple[str, ...] = (
    *sorted(KEYWORDS),
    *BUILT_IN,
    *"()=<>,+-*/.%_'\"!\f",
    "<>",
    "!=",
    "<=",
    ">=",
    "carrier",
    "delay",
    "late",
    "'UA'",
    "'%'",
    '"late"',
    "5",
    "1.5",
    "9223372036854775807",
    "1e308",
    "\0",
    "\ud800",
    "ü",
)
_RECORD = encode(
    Fields(
        b"body",
        7,
        b"\xff",
        {"headers": {"carrier": "UA", "delay": 1.5, "late": True, "tail": ""}},
        Uid("NYC", 1),
        (bytes(24), 1, False),
    )
)


def fuzz_selectors(seed: int) -> int:
    """Runs the round of *seed*; returns the number of strings that were valid selectors.

    Raises:
        AssertionError: A string was refused without a valid reason.
    """
    rng = Random(f"selectors {seed}")
    compiled = 0
    for _ in range(SELECTORS_A_ROUND):
        selector = _compiled(_text(rng))
        if selector is not None:
            compiled += 1
            facts = MessageFacts(_damaged(rng), 7, rng.randrange(3), 0, 1, {"delay": rng.random()})
            assert selector.matches(facts.value_of) in (True, False)
    return compiled


def _compiled(text: str) -> Selector | None:
    refused: RequestError | None = None
    try:
        return compile_selector(text)
    except RequestError as error:
        refused = error
    assert refused.code == ErrorCode.SELECTOR_INVALID
    assert refused.text.startswith("column ") or len(text) > TEXT_MAX
    return None


def _text(rng: Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(_WORDS) * rng.choice((100, 1_000, 100_000))
    if rng.random() < 0.3:
        return " ".join(rng.choices(_WORDS, k=rng.randrange(20)))
    words: list[str] = rng.choice(_SOUND).split(" ")
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(words))
        words[at : at + rng.randrange(3)] = rng.choices(_WORDS, k=rng.randrange(3))
        words = words or ["late"]
    return " ".join(words)


def _damaged(rng: Random) -> bytes:
    record = bytearray(_RECORD)
    for _ in range(rng.randrange(4)):
        record[rng.randrange(len(record))] = rng.choice((0, 1, 0x80, 0xC1, 0xFF))
    return bytes(record[: rng.choice((len(record), len(record), rng.randrange(len(record))))])
