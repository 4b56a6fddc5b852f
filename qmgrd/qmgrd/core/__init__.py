"""The queue manager's decisions: pure code without I/O, clocks or randomness.

The core receives bytes, messages, a transaction and the time. It returns the messages to send. Two
shells drive it: the daemon and the simulator in `tests/sim`.

* `turn.py` runs turns: one transaction each. `broker.py` is the queue manager during a turn.
  `peer.py` is one connection, `intake.py` the queue of received messages. `loading.py` reads the
  definitions at a start. `growth.py` refuses operations for which a full store has no room.
* Subpackages, each with a guide in its `__init__.py`:

    arrivals     the waiting requests of each connection
    requests     replies to operators, and the table from each message to its handler
    sessions     connections: consumers, producers, units of work, settlements, subscriptions
    puts         incoming messages: puts of clients, publications and their fan-out
    jobs         long work in slices
    returns      retries, dead letters, parked publications, events
    link         sending and receiving over a link to another queue manager
    catalogue    definitions
    context      the state that all subpackages share during a turn
    queue        one queue; `queue/group` its groups
    selector     the language of selectors
    limits       what a turn and the store may use
    layout       the rows of the store

Invariant: memory contains only a cache of the store and the state of open connections. After any
failure, a new core starts from the store.
"""
