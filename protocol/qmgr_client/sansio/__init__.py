"""The client without I/O: it accepts bytes and calls, and returns bytes and events.

* `core.py` is the client of one queue manager. `events.py` defines its events, and `tick_times.py`
  computes the time of its next tick. `answers.py` passes each answer to its handler.
* Messages that are sent again after a reconnect: `puts.py`, `settles.py`, `requests.py` and
  `units.py`. `send_order.py` decides the order.
* Deliveries: `consumers.py` and `consumer.py`. `read_ahead.py` decides how many messages to
  prefetch, and `active_leases.py` has the leases of the application. `group_returns.py` drops
  prefetched members of a returned group. `pending_cancels.py` limits credits and cancels.
"""
