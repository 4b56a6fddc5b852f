"""A link to another queue manager: it sends the messages of a transmission queue, in sequence.

* The sending end: `link.py` is the link with its state. `path.py` is one of its connections,
  `flight.py` the puts in flight over a path. `outbox.py` is the transmission queue as a window of
  sequence ids. `puts.py` cuts messages into puts, `pump.py` decides which path sends which put, and
  `watch.py` gives up paths on which nothing moves.
* Opening a path: `continuation.py` checks that the peer's window belongs to the outbox, so that a
  restored store is noticed.
* The receiving end: `inbox.py` stores messages and reports to the sender what is stored.

`sessions/link_streams.py` decides which peers may open a stream, and `catalogue/` has the
definitions of links.

Invariant: a message leaves the outbox only when the peer's commit id covers it, that is, when the
peer has stored it durably. Everything in flight can be sent again, as the peer discards duplicates.
"""
