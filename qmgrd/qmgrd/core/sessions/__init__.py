"""Sessions of clients and of peer queue managers, and everything that ends with a connection.

A session is what one connection holds: consumers, leases, producer streams, units of work.

* Sessions: `session.py` is the state of a connection. `session_token.py` makes the tokens that
  resume a session. `unanswered.py` counts open requests.
* Puts: `streams.py` accepts puts of producers, `link_streams.py` those of links.
  `undeliverable.py` gives up link messages that cannot be stored. `units.py` holds units of work,
  and `unit.py` is one of them. `refusal_rows.py` shortens the list of refused puts in an answer.
* Deliveries: `delivery.py` opens and ends consumers and gets. `pump.py` decides which consumer
  receives messages next. `readers.py` tracks which group each reader is in. `link_rotation.py` does
  the same for links: it decides which link sends next.
* Ends of leases: `settlements.py` handles acks, releases, renewals and lease timeouts.
  `settle_part.py` cuts a long settle into pieces.
* Subscriptions and removal: `subscriptions.py` creates and ends subscriptions, `removal.py`
  deletes queues and subscriptions, `unused.py` deletes those that nobody uses.
* Operators: `connection.py` lists connections and closes one.

Invariant: a closed connection leaves nothing behind in memory. Its leased messages return to their
queues, a slice per turn, and its open units of work are backed out.
"""
