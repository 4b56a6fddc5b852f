"""Messages and events that wait for a turn, for one connection each.

* ``arrival``: an arrival, and the arrivals of one connection
* ``delayed_puts``: the connections that wait until their users may put again
"""
