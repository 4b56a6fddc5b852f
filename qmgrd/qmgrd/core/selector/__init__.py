"""Message selectors, as in JMS: a condition on a message, compiled once into closures.

    text ──`lexer.py`──▶ words ──`parser.py`──▶ closures ──matches──▶ TRUE or not

* `selector.py` is the entry point: it compiles a selector and estimates its cost.
* `condition.py` has comparisons and the logic of TRUE, FALSE and UNKNOWN. `value.py` has values and
  arithmetic, `pattern.py` has LIKE.

`queue/facts.py` defines the names that a selector may use. docs/SELECTORS.md describes the
language.

Invariant: a compiled selector raises nothing itself and takes a bounded time for any message. Every
mistake in a selector is found at compile time.
"""
