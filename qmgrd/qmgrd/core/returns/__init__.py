"""Messages that consumers return: retries, dead letters and parked publications. Also events.

* `returns.py` decides for each returned message whether it is available again immediately, after a
  delay, or never.
* `dead_letters.py` finds a queue for messages that cannot be consumed, with a note about the
  reason.
* `link_shares.py` limits the dead letters of each link.
* `transfer.py` moves or copies one message to another queue.
* `parked.py` keeps the publications on which a subscriber failed, which form the republish queue.
* `events.py` puts events on SYSTEM.EVENTS.

Invariant: a return never loses a message. The transaction that removes a message from its queue
also stores it elsewhere. If no queue accepts a dead letter, it stays on its queue and is tried
again.
"""
