"""The state that all packages of the core share: the open turn, connections and peers.

* `context.py` is the open turn: its transaction, time, limits, timers, changed queues, and the
  outcome that is sent after the commit.
* `producer.py` is a producer with its window of numbered puts. `committed.py` builds the runs in
  the answer to a producer.
* `peers.py` stores which queue managers may open links, and their store ids.
* `aside.py` keeps the items that were set aside: invalid rows, and work that failed twice.
* `put_records.py` is the entry point to a queue for all puts. `eviction.py` makes room on a full
  queue by evicting its oldest messages.

Invariant: code between the begin and the end of a turn writes only to the turn's transaction.
Messages to send are added to the outcome, which is sent after the commit.
"""
