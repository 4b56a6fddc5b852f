"""The queue manager's decisions: pure code without I/O, clocks or randomness.

It takes bytes, messages, a transaction and the time, and returns what to send. Two shells drive it:
the daemon and the simulator in `tests/sim`.

* `turn.py` runs turns: one transaction each. `broker.py` is the queue manager during a turn.
  `peer.py` is one connection, `intake.py` the queue of what connections send. `loading.py` reads
  the definitions at a start. `growth.py` refuses operations that a full store has no room for.
* Rooms, each with a guide in its `__init__.py`:

    requests     answers to operators, and the table from each message to its handler
    sessions     connections: consumers, producers, units of work, settlements, subscriptions
    puts         the way in: puts of clients, publications and their fan-out
    jobs         long work in slices
    returns      retries, dead letters, parked publications, events
    link         sending and receiving over a link to another queue manager
    catalogue    definitions
    context      the state that all rooms share during a turn
    queue        one queue; `queue/group` its groups
    selector     the language of selectors
    limits       what a turn and the store may use
    layout       the rows of the store

Invariant: everything in memory is a cache of the store, plus what ends with connections. After any
failure a new core starts from the store.
"""
