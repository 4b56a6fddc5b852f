"""Message selectors, as in JMS: a condition on a message, compiled once into closures.

    text ──`lexer.py`──▶ words ──`parser.py`──▶ closures ──matches──▶ TRUE or not

* `selector.py` is the entrance: it compiles a selector and estimates its cost.
* `condition.py` has comparisons and the logic of TRUE, FALSE and UNKNOWN. `value.py` has values and
  arithmetic, `pattern.py` LIKE.

`queue/facts.py` says what a name in a selector stands for. docs/SELECTORS.md describes the
language.

Invariant: a compiled selector raises nothing itself and takes a bounded time for any message. Every
mistake in a selector is found when it is compiled.
"""
