"""Sessions of clients and peer queue managers, and all state that ends with a connection.

A session is the state of one connection: consumers, leases, producer streams, units of work.

* Sessions: `session.py` is the state of a connection. `session_token.py` makes the tokens that
  resume a session. `unanswered.py` counts unanswered requests.
* Puts: `streams.py` accepts puts of producers, and `link_streams.py` accepts those of links.
  `undeliverable.py` gives up link messages that cannot be stored. `units.py` manages units of work,
  `unit.py` is one unit, and `unit_memory.py` limits the memory of their puts. `refusal_rows.py`
  shortens the list of refused puts in a reply. `request_part.py` cuts long puts and settle requests
  into parts.
* Deliveries: `delivery.py` opens and ends consumers and gets. `pump.py` decides which consumer
  receives messages next. `readers.py` tracks the current group of each reader. `link_rotation.py`
  decides which link sends next.
* Ends of leases: `settlements.py` handles acks, releases, renewals and lease timeouts.
* Subscriptions and removal: `subscriptions.py` creates and ends subscriptions. `removal.py` deletes
  queues and subscriptions. `unused.py` deletes those that are unused.
* Operators: `connection.py` lists connections and closes one. `page.py` cuts pages from ordered
  lists.

Invariant: a closed connection leaves no state in memory. Its leased messages return to their
queues, one slice per turn, and its open units of work are backed out.
"""
