"""The layout of the store: the bytes of every key and row, and the interface of a store.

* `keys.py` defines the whole key space; read it first. `kv.py` is the interface of a store.
* `entry.py` is a stored message. `index.py` defines the index rows that refer to a message.
  `schedule.py` keeps the rows that are due at a time. `row.py` seals small rows with a checksum.
* `counters.py` has the counters of a queue. `bounds.py` has the attributes in force for a queue.
* `clock.py` is the store clock. `stamp.py` assigns the timestamps of UIDs. `ids.py` assigns numbers
  that never repeat. `value_checks.py` checks types and bounds of values in stored rows.

Invariant: no other package knows an offset in a key or a row. A row has a checksum, or is checked
against the message that it refers to. Therefore, damage is reported and is never used as data.
"""
