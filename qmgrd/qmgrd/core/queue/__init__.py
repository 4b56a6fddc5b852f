"""One queue: its messages, leases, order, duplicates and history.

* `queue.py` is the state of a queue. `positions.py` has the positions up to which messages are
  delivered, and `waiting.py` the waiting consumers. `uncommitted.py` and `held_puts.py` have the
  puts of open units of work.
* `put.py` checks, stamps and appends a batch. `take.py` leases the next messages. `settle.py`
  removes messages or returns them. A busy daemon spends most of its time in these three modules.
* Rows: `lane.py` writes a message and its index rows, and `notes.py` writes the note of a message
  that failed. `dedup.py` has the table of origins that detects duplicates, and `ordered.py` finds
  messages that need no row in the UID index.
* Leases: `lease.py` has the leases of each consumer. `lease_number.py` makes the numbers that prove
  a delivery.
* Order and choice: `order.py` merges the lanes in physical order. `browse.py` reads without
  leasing. `selection.py` defines the selection of a consumer, `seek.py` finds the selected
  messages, and `facts.py` provides the facts of a message to selectors.
* Others: `breaker.py` pauses delivery if nearly all messages fail. `references.py` counts the
  references to publications. `history.py` and `history_rows.py` keep the history. `totals.py` has
  sums over all queues. `put_errors.py` has the errors of puts.
* Groups have a separate package, `group/`.

Invariant: a message is in one lane of its queue, under its priority and arrival number. The message
and its index rows are written and deleted together. Leases are in memory only, so a delivery does
not write to the store.
"""
