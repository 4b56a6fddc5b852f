"""Messages that return from consumers: retries, dead letters, parked publications. And events.

* `returns.py` decides for each message that comes back: available again at once, after a delay, or
  never again.
* `dead_letters.py` finds a queue for messages that cannot be consumed, with a note that says why.
* `transfer.py` moves or copies one message to another queue.
* `parked.py` keeps the publications that a subscriber failed on: the republish queue.
* `events.py` puts events on SYSTEM.EVENTS.

Invariant: no message is lost on the way. It leaves its queue in the transaction that stores it
elsewhere. If no queue accepts a dead letter, it stays where it is and is tried again.
"""
