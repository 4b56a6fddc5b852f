"""A link sends the messages of a transmission queue to another queue manager, in sequence.

* The sending end: `link.py` is the link with its state. `path.py` is one of its connections, and
  `flight.py` has the puts in flight over a path. `outbox.py` is the transmission queue as a window
  of sequence ids. `puts.py` cuts messages into puts, `pump.py` decides which path sends which put,
  and `watch.py` closes stalled paths.
* Opening a path: `continuation.py` checks that the peer's window belongs to the outbox. This check
  detects a restored store.
* The receiving end: `inbox.py` stores messages and reports stored messages to the sender.

`sessions/link_streams.py` decides which peers may open a stream. `catalogue/` has the definitions
of links.

Invariant: a message leaves the outbox only when the peer's commit id covers it. The peer has then
stored the message durably. All messages in flight can be sent again, because the peer discards
duplicates.
"""
